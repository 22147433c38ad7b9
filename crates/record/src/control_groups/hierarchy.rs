//! Which hierarchies of control groups are mounted, and which groups a task is in.
//!
//! Formats: cgroups(7), mountinfo in proc(5).

use std::fs;
use std::path::{Component, Path, PathBuf};
use unhitch_formats::container::GroupName;

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// `unified` for version 2, else the controller of version 1.
    pub(crate) name: &'static str,
    /// Where it is mounted.
    pub(super) at: PathBuf,
    /// The group that is mounted there, named as in `/proc/PID/cgroup`.
    pub(super) root: String,
}

/// The hierarchies of this machine that have accounts.
pub(crate) fn hierarchies() -> Vec<Hierarchy> {
    parse_mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// `36 35 98:0 /root /mount/point options optional… - type source options`
fn parse_mounts(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (Some(root), Some(at), Some(kind)) = (before.next(), before.next(), after.next())
        else {
            continue;
        };
        let options = after.nth(1).unwrap_or("");
        let has = |controller: &str| options.split(',').any(|option| option == controller);
        let names: Vec<&'static str> = match kind {
            "cgroup2" => vec!["unified"],
            "cgroup" => ["cpu", "memory", "blkio"].into_iter().filter(|name| has(name)).collect(),
            _ => continue,
        };
        for name in names {
            let hierarchy =
                Hierarchy { name, at: PathBuf::from(unescape(at)), root: unescape(root) };
            match found.iter_mut().find(|known| known.name == name) {
                // Prefer a mount of the whole hierarchy.
                Some(known) if known.root != "/" && hierarchy.root == "/" => *known = hierarchy,
                Some(_) => {}
                None => found.push(hierarchy),
            }
        }
    }
    found
}

/// Decodes octal escapes such as `\040` for a space.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// The groups of a task, from `/proc/P/cgroup`, with lines such as `4:cpu,cpuacct:/path`.
pub(crate) fn parse_membership(text: &str, hierarchies: &[Hierarchy]) -> Vec<GroupName> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_in = |hierarchy: &&Hierarchy| match hierarchy.name {
            "unified" => number == "0",
            name => controllers.split(',').any(|controller| controller == name),
        };
        found.extend(hierarchies.iter().filter(is_in).map(|hierarchy| GroupName {
            hierarchy: hierarchy.name.to_owned(),
            path: path.to_owned(),
        }));
    }
    found
}

/// The group at `folder`, named as in `/proc/PID/cgroup`.
pub(super) fn group_name(hierarchy: &Hierarchy, folder: &Path) -> Option<GroupName> {
    let rest = folder.strip_prefix(&hierarchy.at).ok()?;
    if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
        return None;
    }
    let path =
        Path::new(&hierarchy.root).join(rest).to_string_lossy().trim_end_matches('/').to_owned();
    Some(GroupName {
        hierarchy: hierarchy.name.to_owned(),
        path: if path.is_empty() { "/".to_owned() } else { path },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_both_versions() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 /docker/x /mnt/a\\040b rw - cgroup cgroup rw,memory\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = parse_mounts(mounts);
        let brief: Vec<_> = found
            .iter()
            .map(|found| (found.name, found.at.to_str().unwrap(), found.root.as_str()))
            .collect();
        let expected = [
            ("cpu", "/sys/fs/cgroup/cpu,cpuacct", "/"),
            ("memory", "/mnt/a b", "/docker/x"),
            ("unified", "/sys/fs/cgroup/unified", "/"),
        ];
        assert_eq!(brief, expected);
        let member = parse_membership(
            "4:memory:/docker/x/y\n3:cpuacct,cpu:/a:b\n1:name=systemd:/s\n0::/u\nnonsense\n",
            &found,
        );
        let member: Vec<_> =
            member.iter().map(|group| (group.hierarchy.as_str(), group.path.as_str())).collect();
        assert_eq!(member, [("memory", "/docker/x/y"), ("cpu", "/a:b"), ("unified", "/u")]);
    }
}
