//! Types of fields.

/// A type, by its place in the list of all types. A type refers only to types before it, so none
/// contains itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TypeId(pub u32);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Integer(Integer),
    /// Its bits.
    Float {
        bits: u32,
        align: u32,
    },
    /// Bytes up to a NUL.
    Text,
    Struct {
        fields: Vec<(String, TypeId)>,
        align: u32,
    },
    Array {
        of: TypeId,
        len: u64,
    },
    /// As many as the field of this name says.
    Sequence {
        of: TypeId,
        len: String,
    },
    /// Names of ranges of an integer.
    Enum {
        of: Integer,
        names: Vec<(String, i128, i128)>,
    },
    /// The option that the enumeration of this name says.
    Variant {
        tag: String,
        options: Vec<(String, TypeId)>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Integer {
    pub bits: u32,
    pub align: u32,
    pub signed: bool,
    /// The value is a time.
    pub is_clock: bool,
}

/// All types of a trace.
#[derive(Default, Debug)]
pub(super) struct Types {
    all: Vec<Type>,
    aligns: Vec<u32>,
}

impl Types {
    pub fn add(&mut self, of: Type) -> TypeId {
        let align = match &of {
            Type::Integer(integer) | Type::Enum { of: integer, .. } => integer.align,
            Type::Float { align, .. } => *align,
            Type::Text => 8,
            Type::Struct { fields, align } => {
                fields.iter().map(|(_, field)| self.align(*field)).fold(*align, u32::max)
            }
            Type::Array { of, .. } | Type::Sequence { of, .. } => self.align(*of),
            // That of the option which is there.
            Type::Variant { .. } => 1,
        };
        self.all.push(of);
        self.aligns.push(align.max(1));
        TypeId(self.all.len() as u32 - 1)
    }

    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.all.get(id.0 as usize)
    }

    /// The alignment in bits.
    pub fn align(&self, id: TypeId) -> u32 {
        self.aligns.get(id.0 as usize).copied().unwrap_or(1)
    }
}
