//! Exact names: whoever writes a tool's name in any spelling that a call would accept gets that tool first.

use super::words::compact;
use crate::catalog::ServerCatalog;

/// How well a text is a tool's name; more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Naming {
    case: Case,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    Other,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// The tool's own name, which others may have as well.
    Own,
    /// A spelling with the server's name in it.
    Full,
    /// The name that clients see.
    Exposed,
}

/// Under which spellings the tools of one server are found: a hash of each, in lower case, and the tool's place.
#[derive(Debug, Default)]
pub(super) struct Spellings(Vec<(u64, u32)>);

impl Spellings {
    /// The spellings of a server's tools, without those that begin with the server's name.
    pub(super) fn of(server: &ServerCatalog) -> Self {
        let mut all = Vec::with_capacity(server.tools.len() * 2);
        for (place, tool) in (0..).zip(&server.tools) {
            all.push((hash(&tool.name), place));
            all.push((hash(&tool.exposed), place));
            all.extend(
                tool.under
                    .iter()
                    .flat_map(|under| [hash(&under.exposed), hash(&under.name)])
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

    /// The hashes of all spellings.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(hash, _)| *hash)
    }

    fn places(&self, wanted: u64) -> impl Iterator<Item = usize> {
        let from = self.0.partition_point(|(hash, _)| *hash < wanted);
        self.0[from..].iter().take_while(move |(hash, _)| *hash == wanted).map(|(_, place)| *place as usize)
    }
}

/// Which spellings there may be among all servers': most texts are none, and no server need be asked.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<u64>);

impl Known {
    /// Marks these; sixteen bits for each leave few texts that seem to be a name.
    pub(super) fn of(hashes: impl Iterator<Item = u64>, count: usize) -> Self {
        let mut bits = vec![0_u64; (count / 4).next_power_of_two()];
        for hash in hashes {
            let (word, bit) = Self::place(bits.len(), hash);
            bits[word] |= bit;
        }
        Self(bits)
    }

    fn may_have(&self, hash: u64) -> bool {
        let (word, bit) = Self::place(self.0.len(), hash);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn place(words: usize, hash: u64) -> (usize, u64) {
        let word = usize::try_from(hash >> 6).unwrap_or_default() & words.saturating_sub(1);
        (word, 1 << (hash & 63))
    }
}

/// A text that may be the name of a tool.
pub(super) struct SoughtName<'a> {
    text: &'a str,
    /// Its hash, where a tool may be spelled so.
    hash: Option<u64>,
    /// What a server's name may stand at the beginning of, and what then stands between that and the tool's.
    after: [Option<(&'a str, &'static [&'static str])>; 3],
}

impl<'a> SoughtName<'a> {
    /// Reads it once for all servers.
    pub(super) fn new(text: &'a str, known: &Known) -> Self {
        let hash = Some(hash(text)).filter(|hash| known.may_have(*hash));
        let after =
            |prefix, between: &'static [&'static str]| strip(text, prefix).map(|rest| (rest, between));
        // `a__b` is `b` of `a` by one style and `_b` of `a` by another: both are looked for.
        Self { text, hash, after: [after("", &["_", "__"]), after("mcp_", &["_"]), after("mcp.", &["."])] }
    }
}

/// Calls `visit` with the places of those tools of a server whose name is sought.
pub(super) fn each_named(
    server: &ServerCatalog,
    spellings: &Spellings,
    sought: &SoughtName<'_>,
    visit: &mut impl FnMut(usize, Naming),
) {
    let SoughtName { text, hash: wanted, ref after } = *sought;
    let own = server.entry.name.as_str();
    let begun = after.iter().flatten().filter_map(|(text, between)| Some((strip(text, own)?, between)));
    let forms = begun.flat_map(|(text, between)| between.iter().filter_map(move |sign| strip(text, sign)));
    for rest in forms {
        let length = rest.len();
        for place in spellings.places(hash(rest)) {
            let Some(tool) = server.tools.get(place) else { continue };
            let names = [Some(&*tool.name), tool.under.as_ref().map(|under| &*under.name)];
            if let Some(case) = names.into_iter().flatten().filter_map(|name| same(name, rest)).max() {
                // The letters of the server's name are looked at as well.
                let case = if text[..text.len() - length].contains(own) { case } else { Case::Other };
                visit(place, Naming { case, form: Form::Full });
            }
        }
    }
    for place in wanted.into_iter().flat_map(|wanted| spellings.places(wanted)) {
        let Some(tool) = server.tools.get(place) else { continue };
        let under = tool.under.as_ref().and_then(|under| same(&under.exposed, text));
        let forms = [
            (Form::Exposed, same(&tool.exposed, text)),
            (Form::Full, under.or_else(|| same(&tool.canonical(), text))),
            (Form::Own, same(&tool.name, text)),
        ];
        let best = forms.into_iter().filter_map(|(form, case)| Some(Naming { case: case?, form })).max();
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

/// What a query is like as a name, where it is short enough to be one.
pub(super) fn as_name(text: &str) -> Option<String> {
    (text.len() <= 80 && text.split_whitespace().count() <= 6)
        .then(|| compact(text))
        .filter(|name| name.len() > 1)
}
