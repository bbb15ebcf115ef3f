//! A server entry: from what was written, in any dialect, to a complete `ServerEntry`.

mod auth;
mod file;
mod normalise;
mod rules;
mod shapes;
mod transport;
mod view;

pub(crate) use file::ServerFile;
pub(crate) use normalise::{Context, Expansion, Flavor, normalise};
pub(crate) use view::{Reveal, view};
