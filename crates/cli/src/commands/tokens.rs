//! `toolbooth tokens`: creates, lists and revokes tokens of the gateway.

use super::{on_gateway, print_entries};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line, wall_ms};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_config::settings::AuthMode;

/// The default lifetime of a token.
const DEFAULT_DAYS: u64 = 30;

/// Arguments of `toolbooth tokens`.
#[derive(Debug, Args)]
pub struct TokensArguments {
    #[command(subcommand)]
    action: Option<TokensAction>,
}

#[derive(Debug, Subcommand)]
enum TokensAction {
    /// List tokens (the default).
    List,
    /// Create a token and print it once; --persona binds it to a persona.
    Create(CreateArguments),
    /// Revoke a token immediately.
    Revoke {
        /// Id of the token, as `list` shows it.
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  toolbooth tokens create --user ann --groups staff,ops --expires 90d
The gateway accepts tokens if `auth.mode` is `token`.")]
struct CreateArguments {
    /// User of the token.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Groups of the user, in addition to those of the configuration.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    groups: Vec<String>,
    /// Lifetime: 90d, 12h, 30m, or never. Default: 30 days.
    #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
    expires: Option<TokenLifetime>,
    /// Note about its purpose.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenLifetime {
    For(Duration),
    Always,
}

fn parse_lifetime(text: &str) -> Result<TokenLifetime, String> {
    if text == "never" {
        return Ok(TokenLifetime::Always);
    }
    let wrong = || "expected a number followed by d, h, m or s, such as 90d, or `never`".to_owned();
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
    seconds.map(|seconds| TokenLifetime::For(Duration::from_secs(seconds))).ok_or_else(wrong)
}

/// Runs `toolbooth tokens`.
pub fn run(global: &GlobalOptions, arguments: TokensArguments) -> CommandResult {
    // The persona is that of the token, not of the caller. The token must outlast this command.
    let plain = GlobalOptions { persona: None, ..global.clone() };
    on_gateway(GatewayHandle::open_persistent(&plain), async |gateway| {
        match arguments.action.unwrap_or(TokensAction::List) {
            TokensAction::List => list(gateway, global).await,
            TokensAction::Create(arguments) => create(gateway, global, arguments).await,
            TokensAction::Revoke { id } => revoke(gateway, global, &id).await,
        }
    })
}

async fn create(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: CreateArguments,
) -> CommandResult {
    // A running gateway checks this itself; an embedded one does not use the configured mode.
    if matches!(gateway, GatewayHandle::Embedded(_))
        && let Some(mode) = mode_without_tokens(global)
    {
        return Err(CommandFailure::misuse(
            "token.bad",
            format!("`auth.mode` is `{mode}`, in which tokens of the gateway are not accepted"),
            Some("get a credential from the proxy or the identity provider, or set `auth.mode: token`"),
        ));
    }
    let CreateArguments { user, groups, expires, note } = arguments;
    let lasts = match expires.unwrap_or(TokenLifetime::For(Duration::from_secs(DEFAULT_DAYS * 86_400))) {
        TokenLifetime::For(time) => Some(time.as_secs()),
        TokenLifetime::Always => None,
    };
    let body = json!({
        "user": user, "groups": groups, "persona": global.persona, "note": note, "expires_seconds": lasts,
    });
    let made = read(&gateway.post("creating a token", "/tokens", Some(body.to_string().into())).await?)?;
    if global.json {
        render::print_json(&made);
        return Ok(Exit::Ok);
    }
    let text = |key: &str| made[key].as_str().map(line).unwrap_or_default();
    // Only the token goes to standard output, so that it can be piped.
    render::print(&format!("{}\n", text("token")));
    render::complain(&format!(
        "Token {} of {} {}. It is not shown again.\n",
        text("id"),
        text("user"),
        match made["expires_ms"].as_i64() {
            Some(at) => format!("is valid for {}", away(at)),
            None => "is valid until it is revoked".to_owned(),
        }
    ));
    Ok(Exit::Ok)
}

/// The configured mode, if a proxy or an identity provider names the users.
fn mode_without_tokens(global: &GlobalOptions) -> Option<&'static str> {
    match gateway::load(global).ok()?.1.settings.auth.mode {
        AuthMode::Header => Some("header"),
        AuthMode::Jwt => Some("jwt"),
        AuthMode::Local | AuthMode::Token => None,
    }
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/tokens").await?;
    let if_empty = "There are no tokens. `toolbooth tokens create --user NAME` creates one.\n";
    print_entries(global, &answer, "tokens", if_empty, table);
    Ok(Exit::Ok)
}

/// A table of tokens.
fn table(tokens: &[Value]) -> String {
    let mut table = Table::new(&["ID", "USER", "GROUPS", "PERSONA", "STATE", "NOTE"]);
    for token in tokens {
        let text = |key: &str| token[key].as_str().unwrap_or_default();
        let groups: Vec<&str> =
            token["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let state = match (text("standing"), token["expires_ms"].as_i64()) {
            ("live", Some(at)) => TableCell::from(format!("{} left", away(at)).as_str()),
            ("live", None) => TableCell::toned("live", Tone::Good),
            (dead, _) => TableCell::toned(dead, Tone::Dim),
        };
        table.row([
            TableCell::toned(text("id"), Tone::Strong),
            text("user").into(),
            groups.join(", ").as_str().into(),
            text("persona").into(),
            state,
            text("note").into(),
        ]);
    }
    table.draw(Paint::stdout())
}

async fn revoke(gateway: &GatewayHandle, global: &GlobalOptions, id: &str) -> CommandResult {
    let revoked: Result<Value, CommandFailure> = gateway.delete(&format!("/tokens/{}", segment(id))).await;
    let revoked = revoked?;
    if global.json {
        render::print_json(&revoked);
    } else {
        let user = revoked["user"].as_str().unwrap_or_default();
        render::print(&format!("Revoked token {} of {}.\n", line(id), line(user)));
    }
    Ok(Exit::Ok)
}

/// The approximate time until a moment.
fn away(at_ms: i64) -> String {
    let left = u64::try_from(at_ms.saturating_sub(wall_ms())).unwrap_or(0) / 1000;
    // Rounds up: some time has passed since the token was created.
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
        let seconds = |n| Ok(TokenLifetime::For(Duration::from_secs(n)));
        let cases = [
            ("30d", seconds(2_592_000)),
            ("12h", seconds(43_200)),
            ("5m", seconds(300)),
            ("7s", seconds(7)),
            ("never", Ok(TokenLifetime::Always)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_lifetime(text), expected, "{text}");
        }
        for text in ["", "d", "30", "-1d", "0s", "1w", "99999999999999d", "1.5h"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }
}
