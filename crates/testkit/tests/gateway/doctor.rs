//! `toolbooth doctor` about the identity provider, and about a gateway that was started with other files.

use crate::oidc_provider::OidcProvider;
use crate::token_users::{bearer, read, run};
use ::http::Method;
use serde_json::{Value, json};
use std::process::Command;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, binaries, poll};

/// The checks of an area, as `status: message`.
fn checks(report: &Value, area: &str) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{report}")).iter();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    checks
        .filter(|check| check["area"] == area)
        .map(|check| format!("{}: {}", text(check, "status"), text(check, "message")))
        .collect()
}

// The command must not block the thread that serves the provider.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_asks_the_identity_provider() {
    let provider = OidcProvider::start().await;
    let mut settings = provider.settings();
    settings["public_url"] = json!("https://booth.example");
    settings["auth"]["jwt"]["scopes"] = json!(["groups"]);
    let home = Home::with_settings(settings, &[]);
    let doctor = || read(&run(&home, &["doctor", "--json"], None));
    let of_provider = checks(&doctor(), "auth");
    assert_eq!(
        of_provider,
        [
            "ok: the identity provider has the endpoints for signing in to the console".to_owned(),
            format!("ok: the identity provider {} answers; usable keys: 1 of 1 (EdDSA)", provider.url),
        ]
    );
    provider.set_down(true);
    let down = checks(&doctor(), "auth");
    assert!(down[0].starts_with("fail: the metadata of the identity provider"), "{down:?}");
    provider.set_down(false);

    // A running gateway: the doctor shows what it refused.
    let gateway = home.start().await;
    let expired = provider.access_token(json!({ "exp": 1 }));
    let reply = Http::new(gateway.address).sending(&bearer(&expired)).send(Method::GET, "/me", &[], "").await;
    assert_eq!(reply.status, 401);
    let shown = poll(TEST_TIMEOUT, || async {
        checks(&doctor(), "auth").into_iter().find(|check| check.contains("refused credential"))
    });
    let shown = shown.await.unwrap_or_else(|| panic!("{:?}", checks(&doctor(), "auth")));
    assert!(shown.contains("GET /me (the token has expired)"), "{shown}");
}

#[tokio::test]
async fn doctor_recognises_a_gateway_that_was_started_with_other_files() {
    let home = Home::with_settings(json!({}), &[]);
    let more = home.path("more.json");
    std::fs::write(&more, r#"{"naming": {"style": "tool"}}"#).unwrap();
    let mut command = Command::new(binaries::toolbooth());
    command.arg("serve").arg("--config").arg(home.config()).arg("--config").arg(&more);
    command.arg("--data-dir").arg(home.data());
    command.env_clear().current_dir(home.path("")).env("HOME", home.path(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;

    let report = read(&run(&home, &["doctor", "--json"], None));
    let about = checks(&report, "gateway");
    assert!(about[0].starts_with(&format!("ok: running at http://{}", gateway.address)), "{about:?}");
    assert!(about[1].starts_with("warn: the gateway uses other files than this command"), "{about:?}");
    assert_eq!(about.len(), 2, "{about:?}");
    assert_eq!(report["ok"], true, "{report}");
}
