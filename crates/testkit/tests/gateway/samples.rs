//! Generated messages of servers and clients: JSON as text, in every notation.

use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt;
use toolbooth_testkit::fixture::TestEra;

/// One call: its arguments, its result and the envelope.
#[derive(Clone, Debug)]
pub struct SampleCall {
    pub result: SampleResult,
    pub arguments: String,
    pub envelope: AnswerEnvelope,
}

/// The envelope of a server's answers.
#[derive(Clone, Copy, Debug)]
pub enum AnswerEnvelope {
    Usual,
    IdLast,
    Spaced,
    Event,
}

/// The result of a call: its members as text, without those of the modern era.
#[derive(Clone)]
pub struct SampleResult {
    members: Vec<String>,
    /// The position of the modern era's members among the members of a result.
    place: usize,
    blocks: usize,
}

impl fmt::Debug for SampleResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text(TestEra::Legacy);
        let start: String = text.chars().take(600).collect();
        write!(f, "{start} ({} bytes)", text.len())
    }
}

impl SampleResult {
    /// A result with exactly this text, an object with members; the modern era's members come last.
    pub fn plain(text: &str) -> Self {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap();
        Self { members: vec![inner.to_owned()], place: 1, blocks: 0 }
    }

    /// The text as a server of this era sends it.
    pub fn text(&self, era: TestEra) -> String {
        let mut members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        if era == TestEra::Modern {
            members.insert(self.place.min(members.len()), r#""resultType":"complete""#);
        }
        format!("{{{}}}", members.join(","))
    }

    /// The number of content blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }
}

impl SampleCall {
    /// Any call.
    pub fn any() -> impl Strategy<Value = Self> {
        let envelope = prop_oneof![
            4 => Just(AnswerEnvelope::Usual),
            1 => Just(AnswerEnvelope::IdLast),
            1 => Just(AnswerEnvelope::Spaced),
            2 => Just(AnswerEnvelope::Event),
        ];
        (answered(), object(arguments()), envelope).prop_map(|(result, arguments, envelope)| Self {
            result,
            arguments,
            envelope,
        })
    }
}

fn answered() -> impl Strategy<Value = SampleResult> {
    let content = vec(block(), 0..5);
    let optional = |key: &'static str, value: BoxedStrategy<String>| {
        proptest::option::of(value.prop_map(move |value| format!(r#""{key}":{value}"#)))
    };
    let unknown = vec(value(), 0..3).prop_map(|values| {
        values.iter().enumerate().map(|(n, value)| format!(r#""unknown{n}":{value}"#)).collect::<Vec<_>>()
    });
    let members = (
        content,
        optional("structuredContent", object(value())),
        optional("isError", prop_oneof![Just("true".to_owned()), Just("false".to_owned())].boxed()),
        optional("_meta", object(value())),
        unknown,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
    );
    members.prop_map(|(content, structured, is_error, meta, unknown, first, place)| {
        let blocks = content.len();
        let mut members = vec![format!(r#""content":[{}]"#, content.join(","))];
        members.extend([structured, is_error, meta].into_iter().flatten());
        members.extend(unknown);
        // Any member may come first.
        let first = first.index(members.len());
        members.rotate_left(first);
        let place = place.index(members.len() + 1);
        SampleResult { members, place, blocks }
    })
}

/// A content block of a known or an unknown kind, with an unknown member.
fn block() -> impl Strategy<Value = String> {
    let known = prop_oneof![
        string().prop_map(|text| format!(r#""type":"text","text":{text}"#)),
        string().prop_map(|text| format!(
            r#""text":{text},"type":"text","annotations":{{"audience":["user","x"],"priority":1.0}}"#
        )),
        Just(r#""type":"image","data":"iVBORw0KGgo=","mimeType":"image/png""#.to_owned()),
        Just(r#""type":"audio","data":"UklGRg==","mimeType":"audio/wav""#.to_owned()),
        string()
            .prop_map(|text| format!(r#""type":"resource","resource":{{"uri":"file:///a","text":{text}}}"#)),
        Just(r#""type":"resource","resource":{"uri":"file:///b","blob":"AA==","mimeType":"x/y"}"#.to_owned()),
        Just(r#""type":"resource_link","uri":"file:///c","name":"c","size":12345678901234567890"#.to_owned()),
        value().prop_map(|value| format!(r#""type":"hologram","beam":{value}"#)),
    ];
    let usual = (known, value()).prop_map(|(known, value)| format!(r#"{{{known},"x-unknown":{value}}}"#));
    let long = (0_usize..3, string()).prop_map(|(kind, text)| {
        let piece = ["x", "é\u{1f600}", "\\u00e9 \\\" "][kind];
        let filling = piece.repeat(1024 * 1024 / piece.len());
        format!(r#"{{"type":"text","text":"{filling}","and":{text}}}"#)
    });
    prop_oneof![40 => usual, 1 => long]
}

fn object(value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    (vec((string(), value, space()), 1..5)).prop_map(|members| join_object(&members)).boxed()
}

fn join_object(members: &[(String, String, &str)]) -> String {
    let members: Vec<String> = members
        .iter()
        .enumerate()
        // A number makes each key unique.
        .map(|(n, (key, value, space))| format!(r#"{space}"{n}{}:{space}{value}"#, &key[1..]))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Any value, sometimes deeply nested.
fn value() -> BoxedStrategy<String> {
    nested(50).boxed()
}

/// Values of arguments: the envelope takes three of the 64 levels.
fn arguments() -> BoxedStrategy<String> {
    nested(50).boxed()
}

fn nested(most: usize) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => number(),
        3 => string(),
        1 => prop_oneof![Just("true".to_owned()), Just("false".to_owned()), Just("null".to_owned())],
        1 => prop_oneof![Just("{}".to_owned()), Just("[]".to_owned()), Just("[ ]".to_owned())],
    ];
    let tree = leaf.prop_recursive(6, 24, 4, |inner| {
        prop_oneof![
            vec((inner.clone(), space()), 1..4).prop_map(|values| {
                let values: Vec<String> =
                    values.iter().map(|(value, space)| format!("{space}{value}")).collect();
                format!("[{}]", values.join(","))
            }),
            vec((string(), inner, space()), 1..4).prop_map(|members| join_object(&members)),
        ]
    });
    (tree, prop_oneof![9 => Just(0), 1 => 1..=most], any::<bool>()).prop_map(|(tree, depth, lists)| {
        let (open, close) = if lists { ("[", "]") } else { (r#"{"deep":"#, "}") };
        format!("{}{tree}{}", open.repeat(depth), close.repeat(depth))
    })
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\n"), 1 => Just("\t ")]
}

fn number() -> impl Strategy<Value = String> {
    let spelled = prop::sample::select(vec![
        "0",
        "-0",
        "1.50",
        "1.0",
        "1E5",
        "1e-7",
        "0.1000",
        "-0.0",
        "12345678901234567890123",
        "9007199254740993",
        "18446744073709551616",
        "-9223372036854775809",
        "3.141592653589793238462643383279",
        "1e308",
        "2E+05",
    ]);
    prop_oneof![
        spelled.prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        (any::<i32>(), 1_u32..99_999).prop_map(|(whole, part)| format!("{whole}.{part}0")),
    ]
}

/// A string with every notation of a character.
fn string() -> BoxedStrategy<String> {
    let spelled = prop::sample::select(vec![
        "a",
        "Z",
        " ",
        "é",
        "世",
        "\u{1f600}",
        "\u{2028}",
        "\u{7f}",
        "\u{200b}",
        r"\n",
        r"\r\n",
        r"\t",
        r#"\""#,
        r"\\",
        r"\/",
        r"\b",
        r"\f",
        r"\u0000",
        r"\u001b",
        r"\u00e9",
        r"\u00E9",
        r"\ud83d\ude00",
        r"\u2028",
        "data: ",
        "<b>",
        "$",
        "=",
    ]);
    vec(spelled, 0..12).prop_map(|pieces| format!("\"{}\"", pieces.concat())).boxed()
}
