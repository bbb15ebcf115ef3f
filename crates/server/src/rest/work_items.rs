//! The parts that requests for jobs and for tasks share: filters of lists, cursors, new definitions and changes.

use super::extract::{self, bad_query};
use super::tools::ToolListQuery;
use serde_json::{Map, Value};
use toolbooth_core::fault::Problem;
use toolbooth_core::hex;

/// Default number of jobs or tasks on a page.
pub const DEFAULT_LIMIT: usize = 100;
/// Maximum number of jobs or tasks on a page.
pub const MAX_LIMIT: usize = 500;

const PATCH: &str = "send {\"summary\": \"text\", \"expected_updated_at\": 1}";
const BAD_CURSOR: &str = "`cursor` must be the `next_cursor` of the previous page";

/// The filters that lists of jobs and of tasks share.
pub struct WorkFilters {
    /// The personas, and whether shared entries are included.
    pub personas: ToolListQuery,
    /// Only entries of this user.
    pub owner: Option<String>,
    /// The place of the last entry of the previous page.
    pub after: Option<String>,
    /// Maximum number of entries.
    pub limit: usize,
    /// The other parameters, in the order of the query.
    pub others: Vec<(String, String)>,
}

impl WorkFilters {
    /// Reads the query of a list.
    pub fn read(query: &str) -> Result<Self, Problem> {
        let mut personas = url::form_urlencoded::Serializer::new(String::new());
        let (mut owner, mut after, mut limit, mut others) = (None, None, DEFAULT_LIMIT, Vec::new());
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "persona" => {
                    personas.append_pair("persona", &value);
                }
                "owner" => owner = Some(value.into_owned()),
                "cursor" => after = Some(place(&value).ok_or_else(|| bad_query(BAD_CURSOR.into()))?),
                "limit" => limit = extract::page_limit(&value, MAX_LIMIT)?,
                _ => others.push((key.into_owned(), value.into_owned())),
            }
        }
        let personas = ToolListQuery::of_personas(&personas.finish())?;
        Ok(Self { personas, owner, after, limit, others })
    }
}

/// Reads the cursor in a body.
pub fn cursor_of_body(cursor: Option<&str>, example: &str) -> Result<Option<String>, Problem> {
    let wrong = || extract::bad_body(BAD_CURSOR.into(), example);
    cursor.map(|cursor| place(cursor).ok_or_else(wrong)).transpose()
}

/// The cursor of the page that begins after this place.
pub fn cursor(place: &str) -> String {
    extract::hex(place.as_bytes())
}

/// A cursor is the hexadecimal form of the place of the page's last entry.
fn place(cursor: &str) -> Option<String> {
    hex::decode(cursor).and_then(|bytes| String::from_utf8(bytes).ok())
}

/// Reads the definition of a new job or task.
pub fn read_definition(body: &[u8], example: &str) -> Result<Value, Problem> {
    let definition: Map<String, Value> = extract::object(body, example)?;
    if definition.contains_key("extends") {
        return Err(extract::bad_body("`extends` is for manifests".into(), example));
    }
    Ok(Value::Object(definition))
}

/// Splits a patch into the expected time of the last change and the fields.
pub fn read_patch(body: &[u8]) -> Result<(Option<i64>, Map<String, Value>), Problem> {
    let mut patch: Map<String, Value> = extract::object(body, PATCH)?;
    for key in ["name", "extends"] {
        if patch.contains_key(key) {
            return Err(extract::bad_body(format!("`{key}` cannot be changed"), PATCH));
        }
    }
    let expected = match patch.remove("expected_updated_at") {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) if number.is_i64() => number.as_i64(),
        Some(_) => {
            return Err(extract::bad_body("`expected_updated_at` must be a whole number".into(), PATCH));
        }
    };
    Ok((expected, patch))
}
