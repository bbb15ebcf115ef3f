//! Shaped results: those without files keep every byte, the others lose their base64 and nothing else.

use super::artifact::StoredArtifact;
use super::inspect::annotated;
use super::*;
use crate::json::RawJson;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

fn rules(schema: Option<&RawJson>) -> Rules<'_> {
    Rules { stem: "s_t-1", output_schema: schema, max_artifacts: 50, max_bytes: 1 << 20, hosts: &[] }
}

fn keep(artifacts: &[Artifact]) -> Vec<Result<StoredArtifact, String>> {
    let keep = |artifact: &Artifact| {
        if let ArtifactContent::Base64(text) = &artifact.content
            && encoded::pieces(text.clone()).any(|piece| piece.is_err())
        {
            return Err("its content is not strict base64".to_owned());
        }
        Ok(StoredArtifact {
            id: "id".into(),
            name: artifact.name.replace(['/', ' '], "_"),
            version: 1,
            mime: artifact.mime.clone().unwrap_or_default(),
            size_bytes: artifact.content.size(),
            description: None,
            viewer: artifact.viewer.clone(),
        })
    };
    artifacts.iter().map(keep).collect()
}

/// The shaped result and its warnings; the same result if there is nothing to do.
fn shaped(result: &RawJson, schema: Option<&Value>) -> (RawJson, Vec<String>) {
    let schema = schema.map(RawJson::from_value);
    let rules = rules(schema.as_ref());
    let Some(inspection) = Inspection::of(result, prescan(result.as_bytes()), &rules) else {
        return (result.clone(), Vec::new());
    };
    let outcomes = keep(inspection.artifacts());
    let shaped = inspection.finish(&outcomes, &rules);
    let kept: Vec<StoredArtifact> = outcomes.into_iter().filter_map(Result::ok).collect();
    let warnings = shaped.warnings.iter().map(ToString::to_string).collect();
    (annotated(shaped.result, &kept, shaped.display.as_ref()), warnings)
}

fn both(object: &Value) -> RawJson {
    RawJson::from_value(&json!({
        "content": [{ "type": "text", "text": object.to_string() }], "structuredContent": object,
    }))
}

fn report() -> Value {
    json!({
        "results": { "summary": "done" },
        "artifacts": [{ "name": "my report.html", "b64": STANDARD.encode("<p>hello there</p>"), "mime": "text/html" }],
        "display": { "open_canvas": true, "primary_file": "my report.html" },
        "meta_data": { "elapsed": 1.5 },
    })
}

#[test]
fn a_report_is_sent_without_its_base64() {
    let (result, warnings) = shaped(&both(&report()), None);
    expect![[r#"
        {"content":[{"type":"text","text":"{\"results\":{\"summary\":\"done\"},\"meta_data\":{\"elapsed\":1.5},\"returned_file_names\":[\"my_report.html\"]}"}],"structuredContent":{"results":{"summary":"done"},"meta_data":{"elapsed":1.5},"returned_file_names":["my_report.html"]},"_meta":{"toolbooth/artifacts":[{"id":"id","name":"my_report.html","version":1,"mime":"text/html","size_bytes":18}],"toolbooth/display":{"open_canvas":true,"primary_file":"my_report.html"}}}
    "#]]
    .assert_eq(&format!("{result}\n"));
    assert!(warnings.is_empty());
}

#[test]
fn a_schema_that_names_files_still_matches() {
    let typed = json!({ "type": "object", "additionalProperties": false, "required": ["results", "artifacts"],
        "properties": { "results": {}, "meta_data": {}, "artifacts": { "type": "array", "items": {
            "type": "object", "required": ["name", "b64"], "properties": { "name": {}, "b64": { "type": "string" }, "mime": {} } } } } });
    let (result, _) = shaped(&both(&report()), Some(&typed));
    let structured = result.member("structuredContent").expect("structured");
    expect![[r#"{"results":{"summary":"done"},"artifacts":[{"name":"my report.html","b64":"","mime":"text/html"}],"meta_data":{"elapsed":1.5}}"#]]
        .assert_eq(structured.as_str());
    let open = json!({ "type": "object", "additionalProperties": true });
    let (result, _) = shaped(&both(&report()), Some(&open));
    let structured = result.member("structuredContent").expect("structured");
    expect![[r#"{"results":{"summary":"done"},"meta_data":{"elapsed":1.5}}"#]].assert_eq(structured.as_str());
}

#[test]
fn results_without_files_keep_every_byte() {
    let objects = [
        json!({ "result": 5 }),
        json!({ "results": 0 }),
        json!({ "results": [], "total": 0, "artifacts": [{ "name": "build.zip", "url": "https://x/b64" }] }),
        json!({ "results": [1], "display": "b64 grid" }),
        json!({ "results": [1], "display": { "columns": 2 } }),
        json!({ "results": 1, "meta_data": { "a": 1 } }),
        json!({ "artifacts": [{ "name": "a", "b64": "AA==" }] }),
        json!({ "result": { "artifacts": [{ "name": "a", "b64": "AA==" }] } }),
        json!({ "results": 1, "metadata": "x".repeat(5_000), "display": null }),
    ];
    for object in objects {
        let result = both(&object);
        assert_eq!(shaped(&result, None).0, result);
    }
}

#[test]
fn an_empty_answer_counts_as_an_answer() {
    for answer in [json!(0), json!(""), json!([]), json!({}), json!(false), Value::Null] {
        for key in ["results", "result"] {
            let object = json!({ key: answer, "artifacts": [{ "name": "a.txt", "b64": "aGk=" }] });
            let (result, _) = shaped(&both(&object), None);
            let found: Value = result.member("structuredContent").expect("structured").read().expect("JSON");
            assert_eq!(found, json!({ "results": answer, "returned_file_names": ["a.txt"] }), "{key}");
        }
    }
}

#[test]
fn older_keys_and_wrappers_are_recognised() {
    let data = STANDARD.encode("hello, this is a file");
    let cases = [
        json!({ "result": 1, "meta-data": 2, "artifacts": [{ "name": "a", "b64": data }] }),
        json!({ "results": 1, "metadata": 2, "artifacts": [{ "name": "a", "b64": data }] }),
        json!({ "results": 1, "meta_data": 2, "returned_files": [{ "filename": "a", "content_base64": data }] }),
        json!({ "results": 1, "meta_data": 2, "returned_file_names": ["a"], "returned_file_contents": [data] }),
    ];
    for object in cases {
        let (result, warnings) = shaped(&both(&object), None);
        let found: Value = result.member("structuredContent").expect("structured").read().expect("JSON");
        assert_eq!(found, json!({ "results": 1, "meta_data": 2, "returned_file_names": ["a"] }));
        let wrapped = json!({ "result": object });
        let (result, _) = shaped(&both(&wrapped), None);
        let inner = result.at(&["structuredContent", "result"]).expect("wrapped");
        assert_eq!(inner.read::<Value>().expect("JSON"), found);
        let as_text = json!({ "content": [{ "type": "text", "text": object.to_string() }],
            "structuredContent": { "result": object.to_string() } });
        let (result, _) =
            shaped(&RawJson::from_value(&as_text), Some(&json!({ "x-fastmcp-wrap-result": true })));
        assert!(!result.as_str().contains(&data), "{result}");
        assert!(result.at(&["structuredContent", "result"]).expect("wrapped").string().is_some());
        assert!(warnings.is_empty());
    }
}

#[test]
fn bad_files_are_reported_and_good_ones_kept() {
    let object = json!({ "results": 1, "artifacts": [
        { "name": "good.txt", "b64": "aGk=" }, { "name": "bad.txt", "b64": "@@" }, { "b64": "aGk=" },
        { "name": "none.txt" }, 7, { "name": "number.txt", "b64": 7 }, { "name": "big.bin", "b64": "A".repeat(2 << 20) },
    ] });
    let (result, warnings) = shaped(&both(&object), None);
    assert!(result.as_str().contains(r#""returned_file_names":["good.txt"]"#), "{result}");
    expect![[r##"
        artifact "#3" was refused: it has no `name`
        artifact "none.txt" was refused: it has no `b64`
        artifact "#5" was refused: it is not an object
        artifact "number.txt" was refused: its `b64` is not a string
        artifact "big.bin" was refused: the files of a call may have 1048576 bytes together
        artifact "bad.txt" was refused: its content is not strict base64"##]]
    .assert_eq(&warnings.join("\n"));
    let many: Vec<Value> = (0..700).map(|n| json!({ "name": format!("{n}.txt"), "b64": "aGk=" })).collect();
    let (_, warnings) = shaped(&both(&json!({ "results": 1, "artifacts": many })), None);
    assert!(warnings.len() <= 130 && warnings[0].contains("\"50.txt\""), "{warnings:?}");
}

#[test]
fn long_metadata_is_cut_and_kept() {
    let object = json!({ "results": 1, "meta_data": { "log": "é".repeat(5_000) } });
    let (result, _) = shaped(&both(&object), None);
    assert_eq!(result.at(&["structuredContent", "meta_data_truncated"]).expect("the flag").as_str(), "true");
    let shown = result.at(&["structuredContent", "meta_data"]).expect("meta");
    assert_eq!(shown.string().expect("text").chars().count(), file_result::MAX_META);
    assert!(result.as_str().contains("s_t-1-meta_data.json"));
}

#[test]
fn pictures_are_kept_and_sent_unchanged() {
    let result = RawJson::parse(
        r#"{"content": [ {"type":"image", "data":"aGk=","mimeType":"image/png"},{"type":"text","text":"b"}]}"#,
    )
    .expect("JSON");
    let (shaped, _) = shaped(&result, None);
    assert!(shaped.as_str().starts_with(&result.as_str()[..result.as_str().len() - 1]), "{shaped}");
    assert!(shaped.as_str().contains(r#""name":"s_t-1-1.png""#));
    let display = r#""toolbooth/display":{"open_canvas":true,"primary_file":"s_t-1-1.png"}"#;
    assert!(shaped.as_str().contains(display), "{shaped}");
}

fn spilled(result: &RawJson, tokens: u32, schema: Option<&Value>) -> Option<(RawJson, Vec<Artifact>)> {
    let spill = Budget::of_tokens(tokens)?.spill(result, "s_t-1", &[Some("pixel.png".into())])?;
    let artifacts = spill.artifacts().to_vec();
    let outcomes = keep(&artifacts);
    Some((spill.finish(&outcomes, schema.map(RawJson::from_value).as_ref()).0, artifacts))
}

#[test]
fn a_result_over_the_budget_is_kept_whole() {
    let long = "línea\n".repeat(2_000);
    let result =
        RawJson::from_value(&json!({ "content": [{ "type": "text", "text": long }], "isError": false }));
    let (shown, artifacts) = spilled(&result, 500, None).expect("over");
    assert_eq!(artifacts[0].content, ArtifactContent::Plain(long.clone().into()));
    assert_eq!(artifacts[0].name, "s_t-1.txt");
    assert!(shown.as_bytes().len() < 2_000, "{shown}");
    assert!(
        shown.as_str().contains(r#"Read on with artifact_read {\"name\":\"s_t-1.txt\",\"offset\":500}"#),
        "{shown}"
    );
    assert!(shown.as_str().contains("500 of 12000 characters"), "{shown}");
    assert!(spilled(&result, 5_000, None).is_none());
    assert!(spilled(&result, 0, None).is_none());

    let rows = json!({ "rows": vec![json!({ "id": 1, "text": "some words" }); 1_000], "total": 1_000 });
    let pretty = serde_json::to_string_pretty(&rows).expect("JSON");
    let twice = json!({ "content": [{ "type": "text", "text": pretty }], "structuredContent": rows });
    let (shown, artifacts) = spilled(&RawJson::from_value(&twice), 500, None).expect("over");
    assert_eq!(artifacts.len(), 1, "the same in text and structure is one file");
    assert!(shown.member("structuredContent").is_none());
    let schema = json!({ "type": "object", "required": ["rows", "total"], "properties": { "rows": { "type": "array" } } });
    let (shown, _) = spilled(&RawJson::from_value(&twice), 500, Some(&schema)).expect("over");
    let small: Value = shown.member("structuredContent").expect("for the schema").read().expect("JSON");
    assert_eq!((small["total"].as_u64(), small["rows"][0]["id"].as_u64()), (Some(1_000), Some(1)));
    assert!(shown.as_bytes().len() < 3_000, "{}", shown.as_bytes().len());
    let strict = json!({ "type": "object", "properties": { "rows": { "minItems": 1_000 } } });
    let (shown, _) = spilled(&RawJson::from_value(&twice), 500, Some(&strict)).expect("over");
    assert_eq!(
        shown.member("structuredContent"),
        Some(RawJson::from_value(&rows)),
        "no smaller one would match"
    );
}

#[test]
fn pictures_over_the_budget_are_referenced() {
    let data = STANDARD.encode(vec![9_u8; 100_000]);
    let picture = json!({ "type": "image", "data": data, "mimeType": "image/png" });
    let result = RawJson::from_value(&json!({ "content": [picture, { "type": "text", "text": "seen" }] }));
    assert!(spilled(&result, 25_000, None).is_none(), "a picture costs no more than 1,600 tokens");
    let (shown, artifacts) = spilled(&result, 1_000, None).expect("over");
    assert!(artifacts.is_empty() && shown.as_str().contains("kept as `pixel.png`"), "{shown}");
    assert!(shown.as_str().contains(r#""text":"seen""#));
}

#[test]
fn many_blocks_become_one_file() {
    let blocks: Vec<Value> = (0..400)
        .map(|n| json!({ "type": "text", "text": format!("block {n} {}", "x".repeat(50)) }))
        .collect();
    let result = RawJson::from_value(&json!({ "content": blocks }));
    let (shown, artifacts) = spilled(&result, 1_000, None).expect("over");
    assert!(shown.as_bytes().len() < 6_000, "{}", shown.as_bytes().len());
    let ArtifactContent::Plain(file) = &artifacts[0].content else { panic!("plain") };
    let kept = serde_json::from_slice::<Vec<Value>>(file).expect("JSON").len();
    let staying = shown.member("content").expect("content").elements().expect("list").len() - 1;
    assert_eq!(kept + staying, 400);
    let bomb = RawJson::parse(format!(r#"{{"content":[{}1]}}"#, "1,".repeat(100_000))).expect("JSON");
    let (shown, artifacts) = spilled(&bomb, 1_000, None).expect("over");
    assert!(shown.as_bytes().len() < 4_000 && artifacts.len() == 1);
}

/// Any JSON, small.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\é/ {}\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                "[a-z_]{1,8}|results|result|artifacts|display|meta_data|b64",
                inner,
                0..4
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_answer_stays_and_no_base64_does(answer in any_value(), other in any_value(), secret in prop::collection::vec(any::<u8>(), 24..60), key in prop_oneof![Just("results"), Just("result")], structured in any::<bool>(), bad in any::<bool>()) {
        let b64 = STANDARD.encode(&secret);
        prop_assume!(!answer.to_string().contains(&b64));
        let data = if bad { format!("{b64}!") } else { b64.clone() };
        let object = json!({ key: answer, "other": other, "artifacts": [{ "name": "f.bin", "b64": data }] });
        let text = json!({ "type": "text", "text": object.to_string() });
        let given = if structured { json!({ "content": [text], "structuredContent": object }) } else { json!({ "content": [text] }) };
        let (result, warnings) = shaped(&RawJson::from_value(&given), None);
        prop_assert!(!result.as_str().contains(&b64));
        prop_assert_eq!(warnings.len(), usize::from(bad));
        let block: Value = result.member("content").expect("content").read().expect("JSON");
        let shown: Value = serde_json::from_str(block[0]["text"].as_str().expect("text")).expect("JSON");
        prop_assert_eq!(&shown["results"], &object[key]);
        prop_assert_eq!(&shown["other"], &object["other"]);
        if structured {
            let shown: Value = result.member("structuredContent").expect("structured").read().expect("JSON");
            prop_assert_eq!(&shown["results"], &object[key]);
        }
    }

    #[test]
    fn every_other_result_keeps_every_byte(object in any_value(), text in "[a-z\"\\\\{}:é ]{0,40}") {
        let result = RawJson::from_value(&json!({ "content": [{ "type": "text", "text": text }, { "type": "text", "text": object.to_string() }], "structuredContent": object, "x": 1 }));
        // Without files or hints beside an answer it is not a file result.
        let is_file_result = |object: &Value| object.get("results").or_else(|| object.get("result")).is_some()
            && (object.get("artifacts").is_some() || object.get("display").is_some());
        prop_assume!(!is_file_result(&object) && !object.get("result").is_some_and(is_file_result));
        prop_assert_eq!(shaped(&result, None).0, result);
    }
}
