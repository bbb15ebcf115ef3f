//! The fields of an audit entry, listed once for all code that visits them.

use super::AuditEntry;
use crate::json::RawJson;

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A time in milliseconds. It is never absent and has a fixed length.
    Time(i64),
    /// A number.
    Number(Option<u64>),
    /// Text, JSON, an id or a hash, as bytes.
    Bytes(Option<&'a [u8]>),
}

impl AuditEntry {
    /// Visits every field by its name.
    ///
    /// The hash chain and the spool write the fields in this order: changing it makes existing databases and spools
    /// unreadable. A new field goes last, with a new version of the encoding.
    pub fn fields<'a>(&'a self, mut visit: impl FnMut(&'static str, FieldValue<'a>)) {
        // Without `..`, so that a new field cannot be forgotten here.
        let Self {
            at_ms,
            kind,
            call_id,
            user,
            by,
            persona,
            client,
            server,
            tool,
            outcome,
            code,
            duration_ms,
            arguments_preview,
            arguments_sha256,
            detail,
        } = self;
        visit("at_ms", FieldValue::Time(*at_ms));
        for (name, text) in [("kind", kind), ("user", user), ("outcome", outcome)] {
            visit(name, FieldValue::Bytes(Some(text.as_bytes())));
        }
        let texts = [
            ("by", by),
            ("persona", persona),
            ("client", client),
            ("server", server),
            ("tool", tool),
            ("code", code),
            ("arguments_preview", arguments_preview),
        ];
        for (name, text) in texts {
            visit(name, FieldValue::Bytes(text.as_deref().map(str::as_bytes)));
        }
        visit("call_id", FieldValue::Bytes(call_id.as_ref().map(|id| id.as_bytes().as_slice())));
        visit("duration_ms", FieldValue::Number(*duration_ms));
        visit("arguments_sha256", FieldValue::Bytes(arguments_sha256.as_ref().map(<[u8; 32]>::as_slice)));
        visit("detail", FieldValue::Bytes(detail.as_ref().map(RawJson::as_bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_visited_once_and_in_the_order_of_the_chain() {
        let mut names = Vec::new();
        AuditEntry::new(1, "call", "ann", "done").fields(|name, _| names.push(name));
        let order = [
            "at_ms",
            "kind",
            "user",
            "outcome",
            "by",
            "persona",
            "client",
            "server",
            "tool",
            "code",
            "arguments_preview",
            "call_id",
            "duration_ms",
            "arguments_sha256",
            "detail",
        ];
        assert_eq!(names, order);
    }
}
