//! User ids that say nothing: in a user namespace the kernel gives one id to all users that it does not map.

use std::sync::OnceLock;

/// The id of unmapped users where the kernel does not say otherwise.
const OVERFLOW: u32 = 65_534;
/// The map of a process that sees every user id as it is: `inside outside count`.
const IDENTITY: [u32; 3] = [0, 0, u32::MAX];

/// Whether a user id may be that of several users.
pub(super) fn stands_for_many(uid: u32) -> bool {
    static OF_UNMAPPED: OnceLock<Option<u32>> = OnceLock::new();
    let of_unmapped = OF_UNMAPPED.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        shared_id(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
    });
    *of_unmapped == Some(uid)
}

/// The id that stands for all unmapped users, if there are any.
fn shared_id(map: &str, overflow: &str) -> Option<u32> {
    let mut lines =
        map.lines().map(|line| line.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
    let is_whole = lines.next().is_some_and(|line| line.eq(IDENTITY)) && lines.next().is_none();
    (!is_whole).then(|| overflow.trim().parse().unwrap_or(OVERFLOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_map_tells_users_apart() {
        let cases = [
            ("         0          0 4294967295\n", "65534\n", None),
            ("         0       1000          1\n", "65534\n", Some(65_534)),
            ("0 0 1000\n1000 1000 4294966295\n", "99\n", Some(99)),
            ("", "", Some(OVERFLOW)),
        ];
        for (map, overflow, expected) in cases {
            assert_eq!(shared_id(map, overflow), expected, "{map:?}");
        }
    }
}
