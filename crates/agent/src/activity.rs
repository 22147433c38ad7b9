//! Whether anybody uses the session, without being told of any input: by the server's counter of
//! idle time.
//!
//! While nobody does, the server reports the end of idleness by an alarm, so that an idle desktop
//! is not woken. In use, the counter is read before each ping.

use crate::display::Display;
use crate::error::Error;
use std::time::Duration;
use x11rb::connection::Connection;
use x11rb::protocol::sync::{
    Alarm, ConnectionExt, Counter, CreateAlarmAux, Int64, TESTTYPE, VALUETYPE,
};

/// How long after the last input a session counts as in use.
const IN_USE: Duration = Duration::from_secs(5);

/// The counter and its alarm.
pub struct Activity {
    counter: Counter,
    alarm: Option<Alarm>,
    in_use: bool,
}

impl Activity {
    /// Fails if the server has no such counter.
    pub fn watch(display: &Display) -> Result<Self, Error> {
        let connection = &display.connection;
        connection.sync_initialize(3, 1)?.reply()?;
        let counters = connection.sync_list_system_counters()?.reply()?.counters;
        let counter = counters.iter().find(|counter| counter.name == b"IDLETIME");
        let counter = counter
            .ok_or_else(|| Error::Display("it does not count idle time".to_owned()))?
            .counter;
        let mut activity = Self { counter, alarm: None, in_use: false };
        activity.look(display)?;
        Ok(activity)
    }

    /// Whether the session is in use, as of the last look.
    pub fn in_use(&self) -> bool {
        self.in_use
    }

    /// Looks whether the session is in use. If it is not, an alarm will say when it is.
    pub fn look(&mut self, display: &Display) -> Result<(), Error> {
        let connection = &display.connection;
        let value = connection.sync_query_counter(self.counter)?.reply()?.counter_value;
        // The alarm is for exactly what counts as use: one that rang in idleness would be followed by
        // the next at once.
        let last = Int64 { hi: 0, lo: u32::try_from(IN_USE.as_millis()).unwrap_or(u32::MAX) - 1 };
        self.in_use = value.hi == 0 && value.lo <= last.lo;
        if let Some(alarm) = self.alarm.take() {
            connection.sync_destroy_alarm(alarm)?;
        }
        if !self.in_use {
            let alarm = connection.generate_id()?;
            let aux = CreateAlarmAux::new()
                .counter(self.counter)
                .value_type(VALUETYPE::ABSOLUTE)
                .value(last)
                .test_type(TESTTYPE::NEGATIVE_COMPARISON)
                .delta(Int64 { hi: 0, lo: 0 })
                .events(1);
            connection.sync_create_alarm(alarm, &aux)?.check()?;
            self.alarm = Some(alarm);
        }
        Ok(())
    }
}
