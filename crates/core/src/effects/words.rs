//! Derives the effect of a tool from its name: whole words, never parts of words.

use super::Rung;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Verbs that read and change nothing; they count at the beginning of a name.
const READS: &str = "\
    analyse analyze browse calculate check compare count describe diff discover display estimate explain \
    extract fetch filter find get grep has head health identify info inspect is list lookup ls measure \
    peek ping preview query read recall retrieve scan search show stat stats status suggest summarise \
    summarize tail validate view whoami";

/// Verbs that change something, anywhere in a name.
const WRITES: &str = "\
    accept acknowledge activate add adjust allocate annotate append apply approve assign attach \
    authorize buy cancel checkout claim clean click clone close complete configure confirm connect \
    convert copy create deactivate decline decrement deploy disable disconnect dispatch download drag \
    duplicate edit enable encrypt enqueue enroll eval evaluate exec execute fill finish fix follow \
    generate grant hover import increment ingest init initialize insert install invite invoke join \
    launch leave link login logout mark merge migrate mkdir modify move mutate mv navigate notify open \
    order pause pay persist pin press print promote provision publish purchase push put rebase rebuild \
    record redeem refund regenerate register reject remember rename reopen reorder replace reply \
    reschedule resolve restart restore resume retry rotate save schedule scroll select sell send share \
    sign solve spawn start stash store submit subscribe swap switch sync tap toggle train transfer \
    trigger type unassign undo unfollow unlink unlock unmark unpin unsubscribe update upgrade upload \
    upsert vote withdraw write";

/// Verbs that change something irreversibly.
const DESTRUCTIVE: &str = "\
    archive ban clear deallocate decommission delete deprovision destroy detach drop empty erase evict \
    expire flush format kick kill nuke overwrite prune purge remove reset revert revoke rm rmdir \
    rollback shutdown stop terminate trash trim truncate unblock uninstall unregister unset wipe";

/// Words that are verbs in one name and nouns in another: after a leading read verb they are nouns (`get_commit`), else
/// verbs (`commit`).
const EITHER: &str = "\
    access block book branch broadcast build call change comment commit dump email export fork issue \
    like load lock log mail message note patch plan post process pull react release report request \
    review run set setup star tag task test tweet work";

/// Write and destructive verbs that are nouns after a leading read verb: `get_order`, `list_link`.
const THINGS: &str = "\
    add archive ban checkout clean clear click close complete copy download drop duplicate edit empty \
    follow format import install invite launch like link login mark merge move open order pin print push \
    record refund reply reset schedule select share sign start stash status stop store swap switch sync \
    train transfer trash trigger type update upgrade upload vote";

/// Nouns for a state that is read; they count at the end of a name without a verb: `git_status`.
const STATES: &str = "\
    diff health history info metrics overview state stats status summary usage version versions";

/// Words with which such a noun is made rather than read: `new_version`.
const MAKERS: &[&str] = &["capture", "make", "new", "take"];

/// Things whose `snapshot` is a reading: `browser_snapshot`. That of a disk or a database creates something.
const VIEWS: &[&str] =
    &["accessibility", "browser", "dom", "page", "playwright", "screen", "tab", "ui", "window"];

/// The possible meanings of a word in a name.
#[derive(Debug, Clone, Copy, Default)]
struct WordMeaning {
    /// The rung of the word as a verb.
    done: Option<Rung>,
    /// Whether it is a read verb.
    reads: bool,
    /// Whether it may be a noun.
    thing: bool,
    /// Whether it names a state.
    state: bool,
}

static MEANINGS: LazyLock<HashMap<&'static str, WordMeaning>> = LazyLock::new(|| {
    let mut meanings: HashMap<&str, WordMeaning> = HashMap::new();
    for word in READS.split_whitespace() {
        meanings.entry(word).or_default().reads = true;
    }
    for (words, rung) in [(EITHER, Rung::Write), (WRITES, Rung::Write), (DESTRUCTIVE, Rung::Destructive)] {
        for word in words.split_whitespace() {
            meanings.entry(word).or_default().done = Some(rung);
        }
    }
    for word in EITHER.split_whitespace().chain(THINGS.split_whitespace()) {
        meanings.entry(word).or_default().thing = true;
    }
    for word in STATES.split_whitespace() {
        meanings.entry(word).or_default().state = true;
    }
    meanings
});

/// Words that join two actions, so that a word after a read verb may be a verb.
const JOINTS: &[&str] = &["and", "or", "then", "if", "to", "with", "n"];

/// The rung that the words of a name indicate, if any.
pub(super) fn rung_of(server: &str, name: &str) -> Option<Rung> {
    let mut words = split(name);
    let own = split(server);
    // Many servers prefix each tool with their own name, or its beginning; it says nothing about the tool.
    let prefix = words.iter().zip(&own).take_while(|(word, own)| word == own).count();
    if prefix < words.len() {
        words.drain(..prefix);
    }
    let meaning = |word: &String| MEANINGS.get(word.as_str()).copied().unwrap_or_default();
    let looks = words.first().is_some_and(|first| meaning(first).reads);
    let joined = words.iter().any(|word| JOINTS.contains(&word.as_str()));
    let done = |word: &String| {
        let meaning = meaning(word);
        if looks && !joined && meaning.thing { None } else { meaning.done }
    };
    let makes = words.iter().any(|word| MAKERS.contains(&word.as_str()));
    let is_view = || words.iter().chain(&own).any(|word| VIEWS.contains(&word.as_str()));
    let is_state = |last: &String| meaning(last).state || (last == "snapshot" && is_view());
    let is_state = !makes && words.last().is_some_and(is_state);
    words.iter().filter_map(done).max().or((looks || is_state).then_some(Rung::Read))
}

/// The words of a name in lower case: split at characters that are not letters or digits, and where the case rises
/// (`insertRow`, `HTTPGet`).
fn split(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let characters: Vec<char> = name.chars().take(256).collect();
    for (at, &character) in characters.iter().enumerate() {
        if !character.is_alphanumeric() {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            continue;
        }
        let before = at.checked_sub(1).map(|at| characters[at]);
        let after = characters.get(at + 1);
        let rises = character.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_numeric())
                || (before.is_some_and(char::is_uppercase)
                    && after.is_some_and(|after| after.is_lowercase())));
        if rises {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        word.extend(character.to_lowercase());
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_punctuation_and_rising_case() {
        let cases: [(&str, &[&str]); 6] = [
            ("create_issue", &["create", "issue"]),
            ("insertRow", &["insert", "row"]),
            ("HTTPGetFile2", &["http", "get", "file2"]),
            ("a.b-c/d", &["a", "b", "c", "d"]),
            ("API-post-page", &["api", "post", "page"]),
            ("__", &[]),
        ];
        for (name, words) in cases {
            assert_eq!(split(name), words, "{name}");
        }
    }

    #[test]
    fn writes_are_recognised_in_real_names() {
        let writes = [
            ("github", "create_issue"),
            ("fs", "write"),
            ("redis", "set_key"),
            ("db", "insertRow"),
            ("git", "push"),
            ("trello", "watch_card"),    // subscribes
            ("resend", "verify-domain"), // starts a verification
            ("git", "commit"),
            ("github", "merge_pull_request"),
            ("slack", "send_message"),
            ("fs", "move_file"),
            ("notion", "createPage"),
            ("redis", "set"),
            ("sqlite", "execute"),
            ("db", "drop_table"),
            ("playwright", "browser_click"),
            ("x", "upload_file"),
            ("k8s", "apply"),
            ("mail", "send_email"),
            ("db", "run_sql"),
            ("sh", "execute"),
            ("bank", "transfer_funds"),
            ("k8s", "deploy_app"),
            ("gh", "merge_pr"),
            ("gh", "create_or_update_file"),
            ("x", "get_and_delete"),
            ("x", "find_or_create"),
            ("x", "search_and_replace"),
            ("x", "get_then_post"),
            ("x", "rotate_key"),
            ("vm", "take_snapshot"),
            ("vm", "snapshot"),
            ("digitalocean", "nfs-snapshot"),
            ("x", "new_version"),
            ("vm", "restore_snapshot"),
            ("x", "set_status"),
            ("x", "post_status"),
        ];
        for (server, name) in writes {
            assert!(rung_of(server, name).is_none_or(Rung::writes), "{server} {name}");
        }
        for (server, name) in [("db", "drop_table"), ("fs", "delete_file"), ("x", "list_and_purge")] {
            assert_eq!(rung_of(server, name), Some(Rung::Destructive), "{server} {name}");
        }
    }

    #[test]
    fn a_noun_does_not_turn_a_read_into_a_write() {
        let reads = [
            ("blog", "get_post_list"),
            ("github", "get_commit_diff"),
            ("my_update_server", "get_x"),
            ("docs", "get_post_list"),
            ("github", "github_list_commits"),
            ("x", "searchIssues"),
            ("x", "count_runs"),
            ("x", "get_updates"),
            ("x", "read_file"),
            ("x", "describe_table"),
            ("x", "get_release"),
            ("playwright", "browser_snapshot"),
            ("workbench", "git_status"),
            ("git", "git_diff"),
        ];
        for (server, name) in reads {
            assert_eq!(rung_of(server, name), Some(Rung::Read), "{server} {name}");
        }
    }

    #[test]
    fn parts_of_words_are_ignored() {
        assert_eq!(rung_of("x", "getaway"), None);
        assert_eq!(rung_of("x", "undeletable"), None);
        assert_eq!(rung_of("x", "get_recreated"), Some(Rung::Read));
    }
}
