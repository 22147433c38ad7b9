//! Checks of single values of the file.

use super::super::values::Time;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// A place in the file and what is wrong there.
pub(super) type Wrong = (std::ops::Range<usize>, String);

pub(super) fn delay(delay: &Spanned<Time>) -> Result<Duration, Wrong> {
    let time = delay.as_ref().0;
    if time <= Duration::from_secs(10) {
        Ok(time)
    } else {
        Err((delay.span(), "a delay is at most 10s".to_owned()))
    }
}

pub(super) fn at_least(time: &Spanned<Time>, least: Duration) -> Result<Duration, Wrong> {
    let given = time.as_ref().0;
    if given >= least { Ok(given) } else { Err((time.span(), format!("at least {least:?}"))) }
}

pub(super) fn absolute(path: Spanned<PathBuf>) -> Result<PathBuf, Wrong> {
    let span = path.span();
    let path = path.into_inner();
    if path.is_absolute() { Ok(path) } else { Err((span, "a path begins with /".to_owned())) }
}

/// The id of a group, by its name in `/etc/group` or its number.
pub(super) fn group_id(name: &str) -> Option<u32> {
    id_in("/etc/group", name)
}

/// The id of a user, by its name in `/etc/passwd` or its number.
pub(super) fn user_id(name: &str) -> Option<u32> {
    id_in("/etc/passwd", name)
}

fn id_in(file: &str, name: &str) -> Option<u32> {
    let lines = std::fs::read_to_string(file).unwrap_or_default();
    let named = lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    named.or_else(|| name.parse().ok())
}
