//! The overflow user id: in a user namespace the kernel reports one id for all users that it does not map.

use std::sync::OnceLock;

/// The default overflow id.
const OVERFLOW: u32 = 65_534;
/// The map of a process that sees all user ids unchanged: `inside outside count`.
const IDENTITY: [u32; 3] = [0, 0, u32::MAX];

/// Whether a user id may belong to several users.
pub(super) fn is_overflow(uid: u32) -> bool {
    static OVERFLOW_ID: OnceLock<Option<u32>> = OnceLock::new();
    let overflow_id = OVERFLOW_ID.get_or_init(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        overflow_id(&read("/proc/self/uid_map"), &read("/proc/sys/kernel/overflowuid"))
    });
    *overflow_id == Some(uid)
}

/// The id that the kernel reports for all unmapped users, if there are any.
fn overflow_id(map: &str, overflow: &str) -> Option<u32> {
    let mut lines =
        map.lines().map(|line| line.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
    let is_whole = lines.next().is_some_and(|line| line.eq(IDENTITY)) && lines.next().is_none();
    (!is_whole).then(|| overflow.trim().parse().unwrap_or(OVERFLOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_distinct_only_with_a_complete_map() {
        let cases = [
            ("         0          0 4294967295\n", "65534\n", None),
            ("         0       1000          1\n", "65534\n", Some(65_534)),
            ("0 0 1000\n1000 1000 4294966295\n", "99\n", Some(99)),
            ("", "", Some(OVERFLOW)),
        ];
        for (map, overflow, expected) in cases {
            assert_eq!(overflow_id(map, overflow), expected, "{map:?}");
        }
    }
}
