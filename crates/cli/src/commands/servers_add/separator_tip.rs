//! The tip for `servers add NAME COMMAND...` without the `--` that separates the command.

use std::ffi::OsString;

/// The number of words of the command that the tip repeats.
const SHOWN_WORDS: usize = 2;

/// Programs that start servers; a user who begins with one of them has forgotten the name of the server.
const LAUNCHERS: [&str; 9] = ["npx", "uvx", "node", "python", "python3", "bunx", "deno", "docker", "pipx"];

/// How to write the command line with `--`; `None` if it is not such a command line.
pub fn separator_tip(words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or("?")).collect();
    let start = words.windows(2).position(|pair| pair == ["servers", "add"])? + 2;
    let given = words.get(start..)?;
    let [name, command @ ..] = given else { return None };
    let program = command.first()?;
    if LAUNCHERS.contains(name) && !given.contains(&"--") {
        return Some(format!(
            "give the server a name: toolbooth servers add NAME -- {name} {program}{}",
            if command.len() > 1 { " …" } else { "" }
        ));
    }
    let is_command = !name.starts_with('-')
        && *name != "openapi"
        && !program.starts_with('-')
        && !name.contains("://")
        && !program.contains("://")
        && !given.contains(&"--");
    let shown = command.iter().take(SHOWN_WORDS).copied().collect::<Vec<_>>().join(" ");
    let more = if command.len() > SHOWN_WORDS { " …" } else { "" };
    is_command
        .then(|| format!("write `--` before the command: toolbooth servers add {name} -- {shown}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_without_the_separator_gets_the_tip() {
        let cases = [
            ("toolbooth servers add npx -y pkg", Some("servers add NAME -- npx -y …")),
            ("toolbooth servers add files npx -y pkg", Some("servers add files -- npx -y …")),
            (
                "toolbooth --json servers add notes python3 notes.py",
                Some("servers add notes -- python3 notes.py"),
            ),
            ("toolbooth servers add files -- npx -y pkg", None),
            ("toolbooth servers add x https://a.example --bogus", None),
            ("toolbooth servers add files --bogus", None),
            ("toolbooth servers add openapi api.json --bogus", None),
            ("toolbooth tools list --bogus", None),
        ];
        for (line, expected) in cases {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let tip = separator_tip(&words);
            assert_eq!(tip.is_some(), expected.is_some(), "{line}: {tip:?}");
            assert!(tip.unwrap_or_default().ends_with(expected.unwrap_or_default()), "{line}");
        }
    }
}
