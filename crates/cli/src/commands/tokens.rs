//! `toolbooth tokens`: who may use this gateway, by tokens it made itself.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::{Reach, read};
use crate::remote::segment;
use crate::render::{self, Cell, Paint, Table, Tone, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a token lasts when nobody says.
const DEFAULT_DAYS: u64 = 30;

/// What about tokens.
#[derive(Debug, Args)]
pub struct TokensArguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List tokens (the default).
    List,
    /// Make a token and print it, this once; --persona binds it to one.
    Create(CreateArguments),
    /// Take a token back, at once.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  toolbooth tokens create --user ann --groups staff,ops --expires 90d
The gateway takes tokens when `auth.mode` is `token`.")]
struct CreateArguments {
    /// Whose it is.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// The groups its holder is in, besides those of the configuration.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    groups: Vec<String>,
    /// How long it lasts: 90d, 12h, 30m, or never. 30 days unless you say.
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    expires: Option<Lasting>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    For(Duration),
    Always,
}

fn lasting(text: &str) -> Result<Lasting, String> {
    if text == "never" {
        return Ok(Lasting::Always);
    }
    let wrong = || "a time is a number with d, h, m or s behind it, such as 90d, or `never`".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "d" => 86_400,
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).filter(|seconds| (1..=100 * 366 * 86_400).contains(seconds));
    seconds.map(|seconds| Lasting::For(Duration::from_secs(seconds))).ok_or_else(wrong)
}

/// Runs `toolbooth tokens`.
pub fn run(global: &Global, what: TokensArguments) -> Outcome {
    in_runtime(async {
        // The persona is the token's here, not the caller's; and a store that forgets would keep no token.
        let plain = Global { persona: None, ..global.clone() };
        let reach = Reach::open_lasting(&plain).await?;
        let outcome = match what.action.unwrap_or(Action::List) {
            Action::List => list(&reach, global).await,
            Action::Create(wanted) => create(&reach, global, wanted).await,
            Action::Revoke { id } => revoke(&reach, global, &id).await,
        };
        reach.close().await;
        outcome
    })
}

async fn create(reach: &Reach, global: &Global, wanted: CreateArguments) -> Outcome {
    let CreateArguments { user, groups, expires, note } = wanted;
    let lasts = match expires.unwrap_or(Lasting::For(Duration::from_secs(DEFAULT_DAYS * 86_400))) {
        Lasting::For(time) => Some(time.as_secs()),
        Lasting::Always => None,
    };
    let body = json!({
        "user": user, "groups": groups, "persona": global.persona, "note": note, "expires_seconds": lasts,
    });
    let made = read(&reach.post("making a token", "/tokens", Some(body.to_string().into())).await?)?;
    if global.json {
        render::print_json(&made);
        return Ok(Exit::Ok);
    }
    let text = |key: &str| made[key].as_str().map(line).unwrap_or_default();
    // The token alone goes to standard output, so that it can be piped to where it is kept.
    render::print(&format!("{}\n", text("token")));
    render::complain(&format!(
        "Token {} of {} {}. It is shown this once.\n",
        text("id"),
        text("user"),
        match made["expires_ms"].as_i64() {
            Some(at) => format!("lasts {}", away(at)),
            None => "lasts until it is revoked".to_owned(),
        }
    ));
    Ok(Exit::Ok)
}

async fn list(reach: &Reach, global: &Global) -> Outcome {
    let answer = reach.get("/tokens").await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let tokens = answer["tokens"].as_array().map(Vec::as_slice).unwrap_or_default();
    if tokens.is_empty() {
        render::print("There are no tokens. `toolbooth tokens create --user NAME` makes one.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ID", "USER", "GROUPS", "PERSONA", "STATE", "NOTE"]);
    for token in tokens {
        let text = |key: &str| token[key].as_str().unwrap_or_default();
        let groups: Vec<&str> =
            token["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let state = match (text("standing"), token["expires_ms"].as_i64()) {
            ("live", Some(at)) => Cell::from(format!("{} left", away(at)).as_str()),
            ("live", None) => Cell::toned("live", Tone::Good),
            (dead, _) => Cell::toned(dead, Tone::Dim),
        };
        table.row([
            Cell::toned(text("id"), Tone::Strong),
            text("user").into(),
            groups.join(", ").as_str().into(),
            text("persona").into(),
            state,
            text("note").into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

async fn revoke(reach: &Reach, global: &Global, id: &str) -> Outcome {
    let revoked: Result<Value, Failure> = reach.delete(&format!("/tokens/{}", segment(id))).await;
    let revoked = revoked?;
    if global.json {
        render::print_json(&revoked);
    } else {
        let user = revoked["user"].as_str().unwrap_or_default();
        render::print(&format!("Token {} of {} is taken back.\n", line(id), line(user)));
    }
    Ok(Exit::Ok)
}

/// How far away a moment is, roughly.
fn away(at_ms: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let left =
        u64::try_from(at_ms.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX))).unwrap_or(0) / 1000;
    // A moment has passed since it was made.
    match left + 30 {
        seconds if seconds >= 2 * 86_400 => format!("{} days", seconds / 86_400),
        seconds if seconds >= 2 * 3_600 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} minutes", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_number_and_a_letter() {
        let seconds = |n| Ok(Lasting::For(Duration::from_secs(n)));
        let cases = [
            ("30d", seconds(2_592_000)),
            ("12h", seconds(43_200)),
            ("5m", seconds(300)),
            ("7s", seconds(7)),
            ("never", Ok(Lasting::Always)),
        ];
        for (text, expected) in cases {
            assert_eq!(lasting(text), expected, "{text}");
        }
        for text in ["", "d", "30", "-1d", "0s", "1w", "99999999999999d", "1.5h"] {
            assert!(lasting(text).is_err(), "{text}");
        }
    }
}
