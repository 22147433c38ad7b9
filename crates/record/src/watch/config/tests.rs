//! Tests of the configuration.

use super::*;
use std::time::Duration;
use unhitch_formats::container::Readers;
use unhitch_model::InputMarks;

fn wrong(text: &str) -> (Option<usize>, String) {
    Config::parse(text).expect_err(text)
}

#[test]
fn a_wrong_line_is_named_by_its_number() {
    for (text, line, message) in [
        ("[recorder]\nrate = 7\n\nrat = 8\n", 4, "rat"),
        ("[recorder]\nrate = \"many\"\n", 2, "invalid type"),
        ("[recorder\n", 1, ""),
        ("[traces]\n\nfolder = \"a\"", 3, "begins with /"),
        ("[limits]\nmin_interval = \"soon\"", 2, "not a time"),
        ("[limits]\ndelay = \"11s\"", 2, "at most 10s"),
        ("[limits]\nburst = 0", 2, "at least 1"),
        ("[retention]\nmax_traces = 3\nmax_bytes = \"2X\"", 3, "not a size"),
        ("[recorder]\nbuffer = \"1K\"", 2, "256K to 1G"),
        ("[access]\ngroup = \"no such group\"", 2, "there is no group"),
        ("[access]\ngroup_reads = \"all\"", 2, "unknown variant"),
        ("[marks]\n\ndevices = \"full\"", 3, "takes yes_keep_every_key"),
        ("\n[[trigger]]\nkind = \"wait\"\n", 2, "needs threshold"),
        ("[[trigger]]\nkind = \"smell\"\n", 2, "unknown variant"),
        ("[[trigger]]\nkind = \"wait\"\nthreshold = \"1s\"", 1, "needs one of thread"),
        (
            "[[trigger]]\nkind = \"wait\"\nthreshold = \"1s\"\nthread = \"a\"\npid = 3",
            1,
            "needs one of thread",
        ),
        ("[[trigger]]\nkind = \"heartbeat\"\nthreshold = \"1ms\"", 3, "at least 10ms"),
        ("\n[[trigger]]\nkind = \"hung_task\"\nthreshold = \"1s\"", 2, "threshold is no option"),
        (
            "[[trigger]]\nkind = \"stall\"\nthreshold = \"1s\"\npid = 3\nidle_waits = true",
            1,
            "idle_waits is no option of a trigger of kind stall",
        ),
        (
            "[[trigger]]\nkind = \"pressure\"\nresource = \"io\"\nthreshold = \"3s\"\nwindow = \"2s\"",
            5,
            "below it",
        ),
        (
            "[[trigger]]\nkind = \"hung_task\"\n[[trigger]]\nkind = \"hung_task\"\nname = \"hung_task-1\"",
            3,
            "another trigger",
        ),
    ] {
        let (found, words) = wrong(text);
        assert_eq!(found, Some(line), "{text}: {words}");
        assert!(words.contains(message), "{text}: {words}");
    }
}

#[test]
fn the_kernel_watches_for_a_limited_number_of_triggers() {
    let wait = "[[trigger]]\nkind = \"wait\"\nthread = \"a\"\nthreshold = \"1s\"\n";
    assert_eq!(Config::parse(&wait.repeat(16)).unwrap().triggers.len(), 16);
    let (line, words) = wrong(&wait.repeat(17));
    assert_eq!(line, Some(16 * 4 + 1), "{words}");
    assert!(words.contains("more than 16"), "{words}");
}

#[test]
fn what_takes_effect_at_the_next_start_is_named() {
    let parse = |text: &str| Config::parse(text).unwrap();
    let used = parse("[access]\ngroup = \"root\"\ngroup_reads = \"traces\"\n");
    let new =
        parse("[access]\ngroup = \"root\"\ngroup_reads = \"nothing\"\n[recorder]\nrate = 7\n");
    assert_eq!(used.fixed_parts_that_differ(&new), ["recorder"]);
    let now = new.with_fixed_parts_of(&used);
    assert_eq!(now.recorder.readers, Readers::Owner, "what the group may read changes at once");
    assert_eq!((now.recorder.sample_hz, now.group), (used.recorder.sample_hz, Some(0)));
    let back = parse("[access]\ngroup = \"root\"\ngroup_reads = \"traces\"\n");
    assert_eq!(back.with_fixed_parts_of(&now).recorder.readers, Readers::Group(0));
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = Config::parse("").unwrap();
    assert_eq!(config.retention.max_traces, 50);
    assert_eq!(config.limits, Limits::default());
    assert!(config.verdict && config.triggers.is_empty() && config.group.is_none());
    assert_eq!((config.input, config.devices), (InputMarks::Private, InputMarks::Off));
    let config = Config::parse(
        "[[trigger]]\nkind = \"stall\"\nprocess = \"editor\"\nthreshold = \"200ms\"\n\
         [[trigger]]\nkind = \"hung_task\"\nenabled = false\n",
    )
    .unwrap();
    let [trigger] = &config.triggers[..] else { panic!("{:?}", config.triggers) };
    assert_eq!((trigger.name.as_str(), trigger.delay), ("stall-1", Duration::from_millis(500)));
}

#[test]
fn the_packaged_file_documents_every_option() {
    let text = include_str!("../../../../../packaging/watch.toml");
    Config::parse(&text.replace("group = \"unhitch\"", "group = \"root\"")).unwrap();
    // Each option is there, as a line or behind a `#`, and with all of them it is valid, too.
    let all: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(option)
                if !option.starts_with(' ')
                    && (option.contains(" = ") || option.starts_with('[')) =>
            {
                format!("{option}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let all = all.replace("group = \"unhitch\"", "group = \"root\"");
    let all = all.replace("user = \"alice\"", "user = \"root\"");
    let config = Config::parse(&all).unwrap_or_else(|error| panic!("{error:?}\n{all}"));
    assert!(config.triggers.len() >= 7, "{:?}", config.triggers);
    let options = options();
    assert!(options.len() > 35, "{options:?}");
    for option in options {
        // Of two that exclude each other, one is told of.
        let is_told_of = text.contains(&format!("`{option}`"));
        let is_there = all.lines().any(|line| line.starts_with(&format!("{option} = ")));
        assert!(is_there || is_told_of, "{option}");
    }
}

/// What the parser says it expects where it finds something else.
fn expected(text: &str) -> Vec<String> {
    let (_, message) = wrong(text);
    let (_, names) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every option of the file.
fn options() -> Vec<String> {
    let tables = expected("other = 1");
    let of = |table: &String| match table.as_str() {
        "trigger" => expected("[[trigger]]\nother = 1"),
        table => expected(&format!("[{table}]\nother = 1")),
    };
    tables.iter().flat_map(of).collect()
}
