//! Removes an entry of a TOML table, and keeps the comments that do not belong to it.

use toml_edit::{Decor, DocumentMut, Item, Table, TableLike};

/// What a file contains instead of nothing. An empty file would look like a failed save.
const PLACEHOLDER: &str = "# Settings of Toolbooth.\n";

/// Comments, and the position of the header they stood above.
struct KeptComments {
    text: String,
    position: isize,
}

/// Removes `[key.name]`, and the table `key` if it is empty then. Returns whether there was such an entry.
///
/// The comment directly above the entry is removed with it. With the last entry all comments stay: the first lines of a
/// file often describe the whole file.
pub fn remove_entry(document: &mut DocumentMut, key: &str, name: &str) -> bool {
    let Some(servers) = document.get_mut(key).and_then(Item::as_table_like_mut) else { return false };
    let above = above_entry(servers, name);
    if servers.remove(name).is_none() {
        return false;
    }
    match servers.is_empty() {
        true => remove_table(document, key, above),
        false => {
            let kept = above.map(|above| KeptComments { text: detached(&above.text).to_owned(), ..above });
            put_above_next(document, kept);
        }
    }
    true
}

/// Removes the table `key` if it is empty, and keeps the comments above it.
pub fn remove_empty_table(document: &mut DocumentMut, key: &str) {
    if document.get(key).and_then(Item::as_table_like).is_some_and(|table| table.is_empty()) {
        remove_table(document, key, None);
    }
}

fn remove_table(document: &mut DocumentMut, key: &str, above_last: Option<KeptComments>) {
    let kept = above_list(document, key, above_last);
    document.remove(key);
    put_above_next(document, kept);
    if document.to_string().trim().is_empty() {
        document.set_trailing(PLACEHOLDER);
    }
}

/// Moves the comments of a file without any key above its first table: they are at the end otherwise.
pub fn lead_with_comments(document: &mut DocumentMut, table: &mut Table) {
    let comments = document.trailing().as_str().unwrap_or_default().trim().to_owned();
    if document.is_empty() && !comments.is_empty() {
        document.set_trailing("");
        table.decor_mut().set_prefix(format!("{comments}\n\n"));
    }
}

fn above_entry(servers: &dyn TableLike, name: &str) -> Option<KeptComments> {
    match servers.get(name)?.as_table() {
        Some(table) => Some(above_table(table)),
        None => Some(KeptComments { text: prefix_of(servers.key(name)?.leaf_decor()), position: 0 }),
    }
}

/// The comments above the header of the list and above its last entry.
fn above_list(document: &DocumentMut, key: &str, entry: Option<KeptComments>) -> Option<KeptComments> {
    let list = match document.get(key).and_then(Item::as_table) {
        Some(list) if list.is_implicit() => return entry,
        Some(list) => above_table(list),
        None => KeptComments { text: prefix_of(document.key(key)?.leaf_decor()), position: 0 },
    };
    Some(KeptComments { text: list.text + &entry.map(|entry| entry.text).unwrap_or_default(), ..list })
}

fn above_table(table: &Table) -> KeptComments {
    KeptComments { text: prefix_of(table.decor()), position: table.position().unwrap_or(0) }
}

fn prefix_of(decor: &Decor) -> String {
    decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned()
}

/// The comments that an empty line separates from the entry below.
fn detached(text: &str) -> &str {
    text.rfind("\n\n").map_or("", |end| &text[..=end])
}

/// Puts comments above the next header in the file, or at its end.
fn put_above_next(document: &mut DocumentMut, comments: Option<KeptComments>) {
    let Some(comments) = comments.filter(|comments| comments.text.contains('#')) else { return };
    let mut positions = Vec::new();
    collect_positions(document.as_table(), &mut positions);
    match positions.into_iter().filter(|position| *position > comments.position).min() {
        Some(next) => put_above(document.as_table_mut(), next, &comments.text),
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default();
            document.set_trailing(format!("{}{trailing}", comments.text));
        }
    }
}

fn collect_positions(table: &Table, found: &mut Vec<isize>) {
    for (_, item) in table {
        match item {
            Item::Table(table) => {
                found.extend(table.position().filter(|_| !table.is_implicit()));
                collect_positions(table, found);
            }
            Item::ArrayOfTables(list) => {
                for table in list {
                    found.extend(table.position());
                    collect_positions(table, found);
                }
            }
            _ => {}
        }
    }
}

fn put_above(table: &mut Table, position: isize, text: &str) {
    let prepend = |table: &mut Table| {
        if table.position() == Some(position) {
            let prefix = prefix_of(table.decor());
            table.decor_mut().set_prefix(format!("{text}{prefix}"));
        }
    };
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => {
                prepend(table);
                put_above(table, position, text);
            }
            Item::ArrayOfTables(list) => {
                for table in list.iter_mut() {
                    prepend(table);
                    put_above(table, position, text);
                }
            }
            _ => {}
        }
    }
}
