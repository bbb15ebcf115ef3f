//! Keys that the gateway makes for itself and the store keeps.

use toolbooth_core::fault::{Blame, Problem};
use toolbooth_store::Store;

/// The key of that name: made once, 32 bytes, never guessable. Anything else is a fault, since what is sealed with a
/// bad key is open to everybody.
pub(crate) async fn sealing_key(store: &dyn Store, name: &str) -> Result<[u8; 32], Problem> {
    let key = store.get_or_create_secret(name, &random_key).await.map_err(|error| Problem::of(&error))?;
    let length = key.len();
    match <[u8; 32]>::try_from(key) {
        Ok(key) if key != [0; 32] => Ok(key),
        Ok(_) => Err(bad(name, "consists of zeros")),
        Err(_) => Err(bad(name, &format!("has {length} bytes instead of 32"))),
    }
}

/// 32 random bytes; nothing, which no store takes, if the system gives no randomness.
pub(crate) fn random_key() -> Vec<u8> {
    let mut key = vec![0_u8; 32];
    match getrandom::fill(&mut key) {
        Ok(()) => key,
        Err(error) => {
            tracing::error!("the system gave no randomness for a key: {error}");
            Vec::new()
        }
    }
}

fn bad(name: &str, why: &str) -> Problem {
    Problem {
        code: "store.bad-key",
        blame: Blame::Gateway,
        message: format!("the gateway's key `{name}` {why}, so nothing can be sealed with it"),
        hint: Some("restore the key file from a backup".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_key_of_the_wrong_length_is_refused_and_never_becomes_zeros() {
        let store = toolbooth_store::open(&StoreUrl::Memory).await.expect("a store");
        for (name, bytes) in [("short", vec![7; 31]), ("long", vec![7; 33]), ("zeros", vec![0; 32])] {
            store.get_or_create_secret(name, &|| bytes.clone()).await.expect("kept");
            let refused = sealing_key(&*store, name).await.expect_err("refused");
            assert_eq!(refused.code, "store.bad-key", "{name}");
        }
        let made = sealing_key(&*store, "made").await.expect("a key");
        assert_eq!(sealing_key(&*store, "made").await.expect("the same"), made);
    }
}
