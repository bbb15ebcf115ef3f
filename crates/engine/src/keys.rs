//! Keys that the gateway generates and the store keeps.

use toolbooth_core::fault::{Blame, Problem};
use toolbooth_store::Store;

/// Returns the key of this name, 32 random bytes that are generated once. Any other key in the store is an error,
/// because it would not protect what is sealed with it.
pub(crate) async fn sealing_key(store: &dyn Store, name: &str) -> Result<[u8; 32], Problem> {
    let key = store.get_or_create_secret(name, &random_key).await.map_err(|error| Problem::of(&error))?;
    let length = key.len();
    match <[u8; 32]>::try_from(key) {
        Ok(key) if key != [0; 32] => Ok(key),
        Ok(_) => Err(bad(name, "consists of zeros")),
        Err(_) => Err(bad(name, &format!("has {length} bytes instead of 32"))),
    }
}

/// Generates 32 random bytes. Empty, which no store accepts, if the system has no randomness.
pub(crate) fn random_key() -> Vec<u8> {
    let mut key = vec![0_u8; 32];
    match getrandom::fill(&mut key) {
        Ok(()) => key,
        Err(error) => {
            tracing::error!("the system provides no random numbers for a new key: {error}");
            Vec::new()
        }
    }
}

fn bad(name: &str, why: &str) -> Problem {
    Problem {
        code: "store.bad-key",
        blame: Blame::Gateway,
        message: format!("the gateway's key `{name}` {why}, so it cannot be used"),
        hint: Some("restore the key file from a backup".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_store::StoreUrl;

    #[tokio::test]
    async fn a_key_of_the_wrong_length_or_of_zeros_is_refused() {
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
