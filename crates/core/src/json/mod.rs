//! JSON text: one tokenizer, and the readers and writers that are built on it.
//!
//! - `tokenizer` decides what is JSON. It alone knows the grammar: strings, escapes, numbers, comments, depth, UTF-8.
//! - `strings` decodes escapes.
//! - `strict` refuses text that parsers read differently: duplicate keys, and keys that are not valid text.
//! - `cursor` reads parts of text that is known to be JSON, in one pass and without a tree.
//! - `raw` is text that is known to be JSON; `write` and `edit` make such text.
//!
//! All other readers of JSON text use these: `outline` and `long` in the wire crate, the parser of configuration files,
//! the masking of secrets, the id of an unreadable answer. Typed values are read with serde_json; the tests of this
//! module compare it with the tokenizer, so that both accept the same texts and find the same parts.

mod cursor;
mod edit;
mod raw;
mod strict;
mod strings;
mod tokenizer;
mod write;

pub use cursor::{JsonCursor, JsonKind, MemberSpan, nests_deeper};
pub(crate) use edit::compacted;
pub use edit::{Edit, cuts, edit_object, with_members, without};
pub use raw::{JsonError, Member, RawJson};
pub use strict::{StrictError, check_strictly, parse_strictly};
pub use strings::{InvalidCharacter, decode, decode_lossily};
pub use tokenizer::{
    ANY_DEPTH, JsonDialect, LONGEST_SPELLED, SyntaxFault, Token, TokenError, TokenKind, Tokenizer,
};
pub(crate) use write::push_string;
pub use write::{ObjectWriter, write_string};
