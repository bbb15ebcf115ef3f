//! Forged identities in different notations.

use crate::spoofing_setup::VICTIM;
use toolbooth_testkit::world::http::Headers;

/// Attacks in the arguments; `VICTIM` is a placeholder for the victim. Each row is tested with every tool and interface.
pub fn forgeries() -> Vec<(&'static str, String)> {
    let rows = [
        ("the argument is given", r#"{"username":"VICTIM"}"#),
        (
            "all of them are given",
            r#"{"username":"VICTIM","_atlas_user":"VICTIM","_mcp_data":{"available_servers":["VICTIM"]}}"#,
        ),
        ("twice, the forged one first", r#"{"username":"VICTIM","username":"ann"}"#),
        ("twice, the forged one last", r#"{"username":"ann","username":"VICTIM"}"#),
        ("twice, around another", r#"{"username":"VICTIM","note":1,"username":"VICTIM"}"#),
        ("twice, one spelled with escapes", r#"{"username":"ann","\u0075sername":"VICTIM"}"#),
        ("twice, the other spelled with escapes", r#"{"\u0075sername":"VICTIM","username":"ann"}"#),
        ("spelled with an escape", r#"{"\u0075sername":"VICTIM"}"#),
        ("spelled with escapes only", r#"{"\u0075\u0073\u0065\u0072\u006E\u0061\u006d\u0065":"VICTIM"}"#),
        ("with a capital", r#"{"Username":"VICTIM"}"#),
        ("in capitals", r#"{"USERNAME":"VICTIM","_ATLAS_USER":"VICTIM","_MCP_DATA":"VICTIM"}"#),
        ("in mixed case", r#"{"uSeRnAmE":"VICTIM"}"#),
        ("with a space before", r#"{" username":"VICTIM"}"#),
        ("with a space behind", r#"{"username ":"VICTIM"}"#),
        ("with a line end", r#"{"username\n":"VICTIM","username\r":"VICTIM","username\t":"VICTIM"}"#),
        ("with a null character", r#"{"username\u0000":"VICTIM"}"#),
        ("with a delete character", "{\"username\u{7f}\":\"VICTIM\"}"),
        ("with a hard space", r#"{"username\u00a0":"VICTIM","\u3000username":"VICTIM"}"#),
        ("with a zero-width space", r#"{"user\u200bname":"VICTIM"}"#),
        ("with a zero-width joiner", "{\"user\u{200d}name\":\"VICTIM\"}"),
        ("with a byte order mark", r#"{"\ufeffusername":"VICTIM"}"#),
        ("with a soft hyphen", r#"{"user\u00adname":"VICTIM"}"#),
        ("with a word joiner", "{\"username\u{2060}\":\"VICTIM\"}"),
        ("with a mark of direction", r#"{"\u202eusername":"VICTIM","user\u200ename":"VICTIM"}"#),
        ("with a variation selector", r#"{"username\ufe0f":"VICTIM"}"#),
        ("with a tag character", "{\"username\u{e0061}\":\"VICTIM\"}"),
        ("with a Hangul filler", r#"{"username\u3164":"VICTIM","username\u115f":"VICTIM"}"#),
        (
            "with an accent",
            r#"{"\u00fcsername":"VICTIM","u\u0308sername":"VICTIM","username\u0301":"VICTIM"}"#,
        ),
        ("in full width", r#"{"ｕｓｅｒｎａｍｅ":"VICTIM","＿atlas＿user":"VICTIM"}"#),
        ("in mathematical letters", r#"{"𝐮𝐬𝐞𝐫𝐧𝐚𝐦𝐞":"VICTIM","𝓾𝓼𝓮𝓻𝓷𝓪𝓶𝓮":"VICTIM","𝚞𝚜𝚎𝚛𝚗𝚊𝚖𝚎":"VICTIM"}"#),
        ("in circled letters", r#"{"ⓤⓢⓔⓡⓝⓐⓜⓔ":"VICTIM"}"#),
        ("in raised letters", r#"{"ᵘˢᵉʳⁿᵃᵐᵉ":"VICTIM"}"#),
        ("in small capitals", r#"{"ᴜꜱᴇʀɴᴀᴍᴇ":"VICTIM","ᴜsᴇʀɴᴀᴍᴇ":"VICTIM"}"#),
        ("with a long s", r#"{"uſername":"VICTIM"}"#),
        ("with Cyrillic letters", r#"{"usеrname":"VICTIM","uѕеrnаmе":"VICTIM"}"#),
        ("with Greek letters", r#"{"υsername":"VICTIM","USERNΑΜΕ":"VICTIM"}"#),
        ("with Armenian letters", r#"{"սsername":"VICTIM","userոame":"VICTIM"}"#),
        ("with Cherokee letters", r#"{"UᏚᎬᎡNᎪᎷᎬ":"VICTIM","uꮪꭼꮁnꭺꮇꭼ":"VICTIM"}"#),
        ("with Lisu letters", r#"{"ꓴꓢꓰꓣꓠꓮꓟꓰ":"VICTIM"}"#),
        ("with Coptic letters", r#"{"usernⲁmⲉ":"VICTIM"}"#),
        (
            "with an underline of another script",
            r#"{"‿mcp‿data":"VICTIM","﹎atlas﹎user":"VICTIM","_mcp\u203fdata":"VICTIM"}"#,
        ),
        ("with half a character", r#"{"\ud800username":"VICTIM"}"#),
        ("as null", r#"{"username":null}"#),
        ("as a list", r#"{"username":["VICTIM"]}"#),
        ("as an object", r#"{"username":{"$ne":null,"is":"VICTIM"}}"#),
        ("as an object with a key of its own name", r#"{"username":{"username":"VICTIM"}}"#),
        ("inside an object", r#"{"o":{"username":"VICTIM"},"params":{"arguments":{"username":"VICTIM"}}}"#),
        ("inside a list", r#"{"list":[{"username":"VICTIM"}]}"#),
        (
            "inside arguments of arguments",
            r#"{"arguments":{"username":"VICTIM"},"_meta":{"username":"VICTIM"}}"#,
        ),
        ("through a prototype", r#"{"__proto__":{"username":"VICTIM"}}"#),
        ("no object but text", r#""{\"username\":\"VICTIM\"}""#),
        ("no object but a list", r#"[{"username":"VICTIM"}]"#),
        ("an object that does not end", r#"{"username":"VICTIM""#),
        (
            "a note that contains another message",
            "{\"note\":\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"plain\",\"arguments\":{\"username\":\"VICTIM\"}}}\n}",
        ),
    ];
    let mut rows: Vec<_> =
        rows.iter().map(|(attack, text)| (*attack, text.replace("VICTIM", VICTIM))).collect();
    let fillers: String = (0..40).map(|n| format!(r#""filler{n}":{n},"#)).collect();
    rows.push(("behind forty others", format!(r#"{{{fillers}"username":"{VICTIM}"}}"#)));
    rows.push((
        "twice among forty others",
        format!(r#"{{"username":"ann",{fillers}"username":"{VICTIM}"}}"#),
    ));
    let long = "\u{200b}".repeat(400);
    rows.push(("behind four hundred invisible characters", format!(r#"{{"{long}username":"{VICTIM}"}}"#)));
    rows
}

/// Attacks in the envelope: the text of the params, and headers. `TOOL` is a placeholder for the tool's name.
pub const ENVELOPES: &[(&str, &str, Headers)] = &[
    ("arguments twice", r#""name":"TOOL","arguments":{"note":1},"arguments":{"username":"VICTIM"}"#, &[]),
    (
        "arguments twice, by an escape",
        r#""name":"TOOL","arguments":{},"\u0061rguments":{"username":"VICTIM"}"#,
        &[],
    ),
    ("arguments in another case", r#""name":"TOOL","Arguments":{"username":"VICTIM"}"#, &[]),
    (
        "arguments in another case, beside",
        r#""name":"TOOL","arguments":{},"ARGUMENTS":{"username":"VICTIM"}"#,
        &[],
    ),
    (
        "beside the arguments",
        r#""name":"TOOL","arguments":{},"username":"VICTIM","_atlas_user":"VICTIM","_mcp_data":"VICTIM""#,
        &[],
    ),
    ("in `_meta`", r#""name":"TOOL","arguments":{},"_meta":{META"username":"VICTIM","user":"VICTIM"}"#, &[]),
    (
        "in `_meta`, by names of the gateway's",
        r#""name":"TOOL","arguments":{},"_meta":{META"toolbooth/user":"VICTIM","toolbooth/caller":{"user":"VICTIM"},"Toolbooth/user":"VICTIM"}"#,
        &[],
    ),
    (
        "in `_meta`, by names of the protocol's",
        r#""name":"TOOL","arguments":{},"_meta":{META"io.modelcontextprotocol/user":"VICTIM","io.modelcontextprotocol/serverInfo":{"name":"VICTIM"}}"#,
        &[],
    ),
    (
        "in `_meta`, twice",
        r#""name":"TOOL","arguments":{},"_meta":{META"a":1},"_meta":{META"username":"VICTIM"}"#,
        &[],
    ),
    (
        "in a header of proxies",
        r#""name":"TOOL","arguments":{}META2"#,
        &[
            ("x-user-email", "VICTIM"),
            ("x-proxy-secret", "guess"),
            ("x-forwarded-user", "VICTIM"),
            ("remote-user", "VICTIM"),
        ],
    ),
    (
        "in a mirrored header",
        r#""name":"TOOL","arguments":{}META2"#,
        &[("mcp-param-username", "VICTIM"), ("mcp-param-_atlas_user", "VICTIM")],
    ),
    (
        "in a header of the gateway's",
        r#""name":"TOOL","arguments":{}META2"#,
        &[("x-toolbooth-user", "VICTIM"), ("x-toolbooth-session", "VICTIM"), ("from", "VICTIM")],
    ),
    ("in a cookie", r#""name":"TOOL","arguments":{}META2"#, &[("cookie", "username=VICTIM; session=VICTIM")]),
    (
        "another tool's name twice",
        r#""name":"TOOL","name":"std_plain","arguments":{"username":"VICTIM"}"#,
        &[],
    ),
    (
        "a forged request state",
        r#""name":"TOOL","arguments":{},"requestState":"VICTIM","inputResponses":{"username":{"action":"accept","content":{"username":"VICTIM"}}}"#,
        &[],
    ),
    (
        "answers without a question",
        r#""name":"TOOL","arguments":{},"inputResponses":{"username":{"action":"accept","content":{"username":"VICTIM"}},"arguments":{"username":"VICTIM"}}"#,
        &[],
    ),
];
