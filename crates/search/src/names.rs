//! Exact names: a query that is a tool's name, in any spelling that a call accepts, finds that tool first.

use crate::words::compact;
use toolbooth_core::catalog::ServerCatalog;

/// Maximum length of a server's name.
const MAX_SERVER_NAME: usize = 64;

/// How well a text matches a tool's name; greater is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameMatch {
    case: Case,
    form: NameForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    Other,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameForm {
    /// The tool's own name, which tools of other servers may have as well.
    Own,
    /// A spelling that includes the server's name.
    Full,
    /// The name that clients see.
    Exposed,
}

/// The spellings of one server's tools: a hash of each in lower case, and the position of the tool.
#[derive(Debug, Default)]
pub(crate) struct Spellings(Vec<(u64, u32)>);

impl Spellings {
    /// The spellings of a server's tools, except those that begin with the server's name.
    pub(crate) fn of(server: &ServerCatalog) -> Self {
        let mut all = Vec::with_capacity(server.tools.len() * 2);
        for (place, tool) in (0..).zip(&server.tools) {
            all.push((hash(&tool.name), place));
            all.push((hash(&tool.exposed), place));
            all.extend(
                tool.original
                    .iter()
                    .flat_map(|original| [hash(&original.exposed), hash(&original.name)])
                    .map(|hash| (hash, place)),
            );
            if tool.server.is_virtual() {
                all.push((hash(&tool.canonical()), place));
            }
        }
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(hash, _)| *hash)
    }

    fn places(&self, sought_hash: u64) -> impl Iterator<Item = usize> {
        let from = self.0.partition_point(|(hash, _)| *hash < sought_hash);
        self.0[from..]
            .iter()
            .take_while(move |(hash, _)| *hash == sought_hash)
            .map(|(_, place)| *place as usize)
    }
}

/// Finds the servers that a name may belong to. Most texts are not names, so no server has to be searched for them.
#[derive(Debug, Default)]
pub(crate) struct NameFilter {
    /// A Bloom filter over the spellings of all servers.
    spellings: Vec<u64>,
    /// Hashes of the servers' names in lower case, sorted, each with the position of the server.
    servers: Vec<(u64, usize)>,
}

impl NameFilter {
    /// Builds the filter from the servers' names and spellings.
    pub(crate) fn of<'a>(servers: impl Iterator<Item = (&'a str, &'a Spellings)> + Clone) -> Self {
        let count: usize = servers.clone().map(|(_, spellings)| spellings.0.len()).sum();
        // Sixteen bits per spelling keep false positives rare.
        let mut bits = vec![0_u64; (count / 4).next_power_of_two()];
        for hash in servers.clone().flat_map(|(_, spellings)| spellings.hashes()) {
            let (word, bit) = Self::place(bits.len(), hash);
            bits[word] |= bit;
        }
        let mut servers: Vec<(u64, usize)> =
            servers.enumerate().map(|(part, (name, _))| (hash(name), part)).collect();
        servers.sort_unstable();
        Self { spellings: bits, servers }
    }

    /// The servers that may have a tool of this name.
    pub(crate) fn parts(&self, name: &SoughtName<'_>) -> Vec<usize> {
        if self.may_have(name.hash) {
            return (0..self.servers.len()).collect();
        }
        let texts = name.after.iter().flatten();
        let prefixed = texts.flat_map(|(text, _)| {
            let signs = text.bytes().enumerate().take(MAX_SERVER_NAME + 1);
            signs.filter(|(_, byte)| matches!(byte, b'_' | b'.')).map(|(at, _)| hash(&text[..at]))
        });
        prefixed.flat_map(|hash| self.of_name(hash)).collect()
    }

    fn of_name(&self, sought_hash: u64) -> impl Iterator<Item = usize> {
        let from = self.servers.partition_point(|(hash, _)| *hash < sought_hash);
        self.servers[from..].iter().take_while(move |(hash, _)| *hash == sought_hash).map(|(_, part)| *part)
    }

    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = Self::place(self.spellings.len(), hash);
        self.spellings.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn place(words: usize, hash: u64) -> (usize, u64) {
        let word = usize::try_from(hash >> 6).unwrap_or_default() & words.saturating_sub(1);
        (word, 1 << (hash & 63))
    }
}

/// A text that may be the name of a tool.
pub(crate) struct SoughtName<'a> {
    text: &'a str,
    hash: u64,
    /// The texts that may begin with a server's name, each with the separators that may follow that name.
    after: [Option<(&'a str, &'static [&'static str])>; 3],
}

impl<'a> SoughtName<'a> {
    /// Prepares a text for the lookup in all servers.
    pub(crate) fn new(text: &'a str) -> Self {
        let after =
            |prefix, between: &'static [&'static str]| strip(text, prefix).map(|rest| (rest, between));
        // `a__b` is tool `b` of `a` in one naming style and `_b` of `a` in another: both are looked up.
        let after = [after("", &["_", "__"]), after("mcp_", &["_"]), after("mcp.", &["."])];
        Self { text, hash: hash(text), after }
    }
}

/// Calls `visit` with the position of each tool of a server that has the sought name.
pub(crate) fn each_named(
    server: &ServerCatalog,
    spellings: &Spellings,
    sought: &SoughtName<'_>,
    visit: &mut impl FnMut(usize, NameMatch),
) {
    let SoughtName { text, hash: sought_hash, ref after } = *sought;
    let own = server.entry.name.as_str();
    let prefixed = after.iter().flatten().filter_map(|(text, between)| Some((strip(text, own)?, between)));
    let forms = prefixed.flat_map(|(text, between)| between.iter().filter_map(move |sign| strip(text, sign)));
    for rest in forms {
        let length = rest.len();
        for place in spellings.places(hash(rest)) {
            let Some(tool) = server.tools.get(place) else { continue };
            let names = [Some(&*tool.name), tool.original.as_ref().map(|original| &*original.name)];
            if let Some(case) = names.into_iter().flatten().filter_map(|name| same(name, rest)).max() {
                // The case of the server's name counts as well.
                let case = if text[..text.len() - length].contains(own) { case } else { Case::Other };
                visit(place, NameMatch { case, form: NameForm::Full });
            }
        }
    }
    for place in spellings.places(sought_hash) {
        let Some(tool) = server.tools.get(place) else { continue };
        let original = tool.original.as_ref().and_then(|original| same(&original.exposed, text));
        let forms = [
            (NameForm::Exposed, same(&tool.exposed, text)),
            (NameForm::Full, original.or_else(|| same(&tool.canonical(), text))),
            (NameForm::Own, same(&tool.name, text)),
        ];
        let best = forms.into_iter().filter_map(|(form, case)| Some(NameMatch { case: case?, form })).max();
        if let Some(naming) = best {
            visit(place, naming);
        }
    }
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn same(a: &str, b: &str) -> Option<Case> {
    let case = if a == b { Case::Same } else { Case::Other };
    a.eq_ignore_ascii_case(b).then_some(case)
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The compact form of a query that is short enough to be a name.
pub(crate) fn as_name(text: &str) -> Option<String> {
    (text.len() <= 80 && text.split_whitespace().count() <= 6)
        .then(|| compact(text))
        .filter(|name| name.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_in_servers_that_it_begins_with() {
        let own = Spellings(vec![(hash("Add_Item"), 0)]);
        let none = Spellings::default();
        let filter = NameFilter::of([("shop", &none), ("my.Shop_1", &own), ("my", &none)].into_iter());
        let parts = |text: &str| filter.parts(&SoughtName::new(text));
        let cases: [(&str, &[usize]); 8] = [
            ("shop_add", &[0]),
            ("SHOP__add", &[0]),
            ("my.shop_1_add", &[2, 1]),
            ("mcp_my.shop_1_add", &[2, 1]),
            ("MCP.shop.add", &[0]),
            ("shops_add", &[]),
            ("add an item to the shop. Then pay_for it", &[]),
            ("add_item", &[0, 1, 2]), // Any server may have a tool of this name.
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
