//! Checks of `toolbooth doctor` about the identity provider.

use super::{DoctorReport, Status};
use crate::callers;
use std::time::SystemTime;
use toolbooth_config::LoadedConfig;
use toolbooth_config::settings::AuthMode;
use toolbooth_engine::clock::system_clock;
use toolbooth_server::identify::{ProviderFindingLevel, ProviderToCheck};

/// Asks the provider of `auth.jwt.issuer`, if callers use its tokens.
pub(super) async fn check(report: &mut DoctorReport, loaded: &LoadedConfig) {
    let settings = &loaded.settings;
    let auth = &settings.auth;
    let Some(issuer) = auth.jwt.issuer.as_deref().filter(|_| auth.mode == AuthMode::Jwt) else { return };
    let http = callers::http();
    let console_client = callers::console_client(auth, issuer, &http);
    let provider = ProviderToCheck {
        issuer,
        jwks_url: auth.jwt.jwks_url.as_deref(),
        scopes: &auth.jwt.scopes,
        console_client: console_client.as_ref(),
        now: wall_time,
    };
    for finding in provider.check(&*http).await {
        let status = match finding.level {
            ProviderFindingLevel::Good => Status::Ok,
            ProviderFindingLevel::Warning => Status::Warn,
            ProviderFindingLevel::Error => Status::Fail,
        };
        report.note("auth", status, finding.message, finding.fix);
    }
    if settings.public_url.is_none() {
        let message = "without `public_url`, tokens are accepted only for `auth.jwt.audience`, and not for the URLs in the \
                       metadata of the gateway";
        let fix = "set `public_url` to the URL by which clients reach the gateway";
        report.note("auth", Status::Warn, message, Some(fix.into()));
    }
}

fn wall_time() -> SystemTime {
    system_clock().wall_time()
}
