//! Server entries: converts an entry as written, in any dialect, to a complete `ServerEntry`.

mod argument_words;
mod auth;
mod context;
mod file;
mod normalise;
mod rules;
mod shapes;
mod switch;
mod transport;
mod view;

pub(crate) use context::EntryInputs;
pub(crate) use file::ServerFile;
pub(crate) use normalise::{Expansion, normalise};
pub(crate) use view::{Reveal, view};
