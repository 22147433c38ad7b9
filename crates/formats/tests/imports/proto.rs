//! Writes protocol buffers, and the packets of Perfetto that the tests need.

/// A message that is being written.
#[derive(Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub fn packed(self, field: u64, numbers: &[u64]) -> Self {
        let mut content = Self::new();
        numbers.iter().for_each(|number| content.varint(*number));
        self.bytes(field, &content.0)
    }
}

/// A trace of packets.
pub fn trace(packets: impl IntoIterator<Item = Message>) -> Vec<u8> {
    packets.into_iter().fold(Message::new(), |trace, packet| trace.message(1, packet)).0
}

/// A bundle of one CPU's events.
pub fn bundle(cpu: u64, events: impl IntoIterator<Item = Message>) -> Message {
    let bundle = Message::new().number(1, cpu);
    Message::new().message(1, events.into_iter().fold(bundle, |it, event| it.message(2, event)))
}

pub fn switch(
    time: u64,
    (prev, prev_name): (u64, &str),
    state: u64,
    (next, next_name): (u64, &str),
) -> Message {
    let payload = Message::new()
        .text(1, prev_name)
        .number(2, prev)
        .number(3, 120)
        .number(4, state)
        .text(5, next_name)
        .number(6, next)
        .number(7, 98);
    Message::new().number(1, time).number(2, prev).message(4, payload)
}

/// A wake-up: `kind` is the number of the event's field.
pub fn wake(kind: u64, time: u64, waker: u64, flags: Option<u64>, wakee: u64) -> Message {
    let payload = Message::new().text(1, "woken").number(2, wakee).number(3, 120).number(5, 1);
    let event = Message::new().number(1, time).number(2, waker);
    flags.into_iter().fold(event, |event, flags| event.number(5, flags)).message(kind, payload)
}
