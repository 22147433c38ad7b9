//! Marks that people and programs sent to the recorder, as events of a trace.

/// The provider of the events: "unhitch marks v1".
pub const MARK_PROVIDER: [u8; 16] = *b"unhitch marks v1";

/// How much marks of input tell, least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InputMarks {
    /// There are none.
    Off,
    /// The class of a key and its time.
    Private,
    /// Also which key.
    Full,
}

impl InputMarks {
    /// The name in files, in requests and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Private => "private",
            Self::Full => "full",
        }
    }

    /// The one with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Off, Self::Private, Self::Full].into_iter().find(|marks| marks.name() == name)
    }
}

/// What a mark is; the number is the event's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum MarkEvent {
    /// Words of a person or a program.
    Note = 1,
    /// A key went down.
    KeyPress = 2,
    /// A key went up.
    KeyRelease = 3,
    /// A mouse button went down.
    ButtonPress = 4,
    /// A mouse button went up.
    ButtonRelease = 5,
    /// The mouse wheel turned.
    Wheel = 6,
    /// A window was asked whether it answers.
    Ping = 7,
}

impl MarkEvent {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Note,
        Self::KeyPress,
        Self::KeyRelease,
        Self::ButtonPress,
        Self::ButtonRelease,
        Self::Wheel,
        Self::Ping,
    ];

    /// The event's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::KeyPress => "key press",
            Self::KeyRelease => "key release",
            Self::ButtonPress => "button press",
            Self::ButtonRelease => "button release",
            Self::Wheel => "wheel",
            Self::Ping => "ping",
        }
    }

    /// The mark with this event id.
    pub fn of_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| *mark as u16 == id)
    }
}
