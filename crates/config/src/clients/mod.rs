//! The clients of this machine: the table of their files, and the edits of those files.
//!
//! The edits are pure functions on texts. They keep comments, order and unknown keys; a result that would change anything
//! but the named entries is refused.

mod document;
mod lookup;
mod name_lists;
mod pages;
mod place;
mod rewire;
mod spec;
mod table;
mod yaml_text;

pub use document::ClientDocument;
pub use name_lists::{ListEffect, ListForm, NameList};
pub use pages::{client_page, clients_index};
pub use place::{BaseFolder, ClientFilePlace, GATEWAY_NAME};
pub use rewire::{admit_in_file, closed_lists, put_back, rewire, sample, take_from_file, withdraw_from_file};
pub use spec::{
    ClientId, ClientSpec, EntryForm, EntryPlace, GatewayEntry, OffSwitch, ServerLayout, TimeoutUnit,
    VariableForm,
};
pub use table::CLIENTS;
pub(crate) use table::PROJECT_FILE_LISTS;
