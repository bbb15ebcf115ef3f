//! Builds a server's environment: a few allowed host variables and those that its entry declares.

use std::collections::BTreeMap;
use toolbooth_core::secret::SecretText;

/// Builds a server's complete environment, sorted by name.
///
/// `allowed` contains names of host variables; a trailing `*` matches any suffix (`LC_*`). `own` contains the
/// variables of the server's entry, which take precedence.
pub fn clean_environment(
    host: &BTreeMap<String, String>,
    allowed: &[String],
    own: &BTreeMap<String, SecretText>,
) -> Vec<(String, SecretText)> {
    let inherited = host
        .iter()
        .filter(|(name, _)| allowed.iter().any(|pattern| admits(pattern, name)))
        // Shells export functions this way; a server's shell would execute them.
        .filter(|(_, value)| !value.starts_with("()"))
        .map(|(name, value)| (name.clone(), SecretText::expanded(format!("${{{name}}}"), value)));
    let mut whole: BTreeMap<String, SecretText> = inherited.collect();
    whole.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    whole.into_iter().collect()
}

fn admits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_and_declared_names_pass() {
        let host = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("LC_TIME", "C"),
            ("LCX", "no"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("HOME", "() { :; }; reboot"),
        ];
        let host = host.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let allowed = ["PATH", "HOME", "LANG", "LC_*"].map(str::to_owned);
        let own = [("PATH", "/opt/bin"), ("TOKEN", "t")]
            .map(|(name, value)| (name.to_owned(), SecretText::plain(value)));
        let whole = clean_environment(&host, &allowed, &own.into_iter().collect());
        let seen: Vec<_> = whole.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(seen, [("LC_ALL", "C"), ("LC_TIME", "C"), ("PATH", "/opt/bin"), ("TOKEN", "t")]);
    }

    #[test]
    fn host_values_are_not_printed() {
        let host = [("HOME".to_owned(), "/home/ann".to_owned())].into_iter().collect();
        let whole = clean_environment(&host, &["HOME".to_owned()], &BTreeMap::new());
        assert_eq!(format!("{whole:?}"), r#"[("HOME", "${HOME}")]"#);
    }
}
