//! Exposed names of tools: the first server that claims a name has it.

use crate::contract::{Shared, code};
use crate::sample::server;
use toolbooth_store::{ExposedName, MAX_NAMES_OF_CLAIM};

fn owned(name: &str, by: &str) -> ExposedName {
    ExposedName { name: name.to_owned(), server: server(by) }
}

fn claims(by: &str, names: &[&str]) -> Vec<ExposedName> {
    names.iter().map(|name| owned(name, by)).collect()
}

pub async fn the_first_claim_of_a_name_wins(store: Shared) {
    assert_eq!(store.claim_names(claims("mail", &["find", "send"]), 1).await, Ok(vec![]));
    assert_eq!(store.claim_names(claims("mail", &["send", "send"]), 2).await, Ok(vec![]), "its own one");
    assert_eq!(
        store.claim_names(claims("news", &["find", "read"]), 3).await,
        Ok(vec![owned("find", "mail")]),
        "the other name is claimed all the same"
    );
    assert_eq!(store.claim_names(claims("mail", &["read"]), 4).await, Ok(vec![owned("read", "news")]));
    store.release_names(&server("mail")).await.expect("released");
    assert_eq!(store.claim_names(claims("news", &["find", "read"]), 5).await, Ok(vec![]));
    assert_eq!(store.claim_names(claims("mail", &["find"]), 6).await, Ok(vec![owned("find", "news")]));
    let both = vec![owned("list", "a"), owned("list", "b")];
    assert_eq!(store.claim_names(both, 7).await, Ok(vec![owned("list", "a")]), "claims have an order");
    assert_eq!(store.claim_names(Vec::new(), 8).await, Ok(vec![]));
}

pub async fn one_of_eight_parallel_claims_of_a_name_wins(store: Shared) {
    let claimed = (0..8).map(|number| {
        let store = store.clone();
        async move { store.claim_names(claims(&format!("s{number}"), &["find"]), 1).await }
    });
    let lost = futures_util::future::join_all(claimed).await;
    let lost: Vec<ExposedName> = lost.into_iter().flat_map(|lost| lost.expect("claimed")).collect();
    assert_eq!(lost.len(), 7, "{lost:?}");
    assert!(lost.iter().all(|name| *name == lost[0]), "{lost:?}");
}

pub async fn claims_are_limited(store: Shared) {
    let many = |by: &str, count: usize| -> Vec<ExposedName> {
        (0..count).map(|number| owned(&format!("n{number}"), by)).collect()
    };
    assert_eq!(store.claim_names(many("a", MAX_NAMES_OF_CLAIM), 1).await, Ok(vec![]));
    let lost = store.claim_names(many("b", MAX_NAMES_OF_CLAIM), 2).await.expect("claimed");
    assert_eq!(lost.len(), MAX_NAMES_OF_CLAIM);
    assert_eq!(code(store.claim_names(many("a", MAX_NAMES_OF_CLAIM + 1), 3).await), "store.unfit");
    assert_eq!(code(store.claim_names(claims("a", &["a\0b"]), 3).await), "store.unfit");
}
