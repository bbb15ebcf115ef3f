//! The user's stored secrets: values of variables, sealed in files of the configuration folder (`secret_files`), and the key
//! that seals them (`key`), in the keyring of the operating system if there is one, else in a file.

mod fault;
mod key;
mod key_file;
mod key_place;
mod key_record;
mod keyring;
mod secret_files;

pub use fault::SecretFault;
pub use key::{KeyMove, SecretsKey};
pub use key_place::KeyPlace;
pub use secret_files::{SecretFile, SecretFiles};
