//! Builds the identity of callers from the settings `auth`, `groups`, `personas` and `compliance`, and the prompts of
//! personas and of `prompts`.

use crate::terms;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_config::settings::{
    AuthMode, AuthSettings, ConsolePrompt, InheritSetting, LocalUsersSetting, SubjectSetting,
};
use toolbooth_config::{LoadedConfig, Settings};
use toolbooth_core::caller::EVERYONE;
use toolbooth_core::compliance::{LevelRule, Levels};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::own_prompt::OwnPrompt;
use toolbooth_core::persona::{self, Inherit, Persona, Personas};
use toolbooth_server::identify::jwt::{ClaimNames, IssuerKeys, Jwt, KeySource};
use toolbooth_server::identify::oidc::{OidcClient, OidcSettings, ProviderPrompt};
use toolbooth_server::identify::{
    AuthChallenge, Authenticator, Directory, GroupService, IdentifyMode, Proxy, Resource,
};
use toolbooth_server::peer::LocalAccess;
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::HttpFetch;

/// The default cache time for answers of the group service.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// Builds the identity for the configured listen address.
pub fn identity(loaded: &LoadedConfig) -> Result<Authenticator, Problem> {
    identity_at(loaded, loaded.settings.listen.0)
}

/// The HTTP client for keys and the group service.
pub fn http() -> Arc<dyn HttpFetch> {
    Arc::new(Fetch::default())
}

/// Builds the identity for the address that the gateway actually listens on.
pub fn identity_at(loaded: &LoadedConfig, address: SocketAddr) -> Result<Authenticator, Problem> {
    let settings = &loaded.settings;
    let auth = &settings.auth;
    if auth.mode == AuthMode::Local && !address.ip().is_loopback() {
        return Err(Problem {
            code: "auth.local-beyond-loopback",
            blame: Blame::Gateway,
            message: format!("in `local` mode every caller that can reach {} would act as you", address),
            hint: Some("listen on 127.0.0.1, or set `auth.mode` to `token`, `header` or `jwt`".into()),
        });
    }
    let http = http();
    let mode = match auth.mode {
        AuthMode::Local => IdentifyMode::Local(match auth.local_users {
            LocalUsersSetting::Own => LocalAccess::Own,
            LocalUsersSetting::Any => LocalAccess::Any,
        }),
        AuthMode::Header => header(auth)?,
        AuthMode::Token => IdentifyMode::Token,
        AuthMode::Jwt => jwt(auth, http.clone())?,
    };
    let resource = Resource {
        challenge: match auth.mode {
            AuthMode::Token | AuthMode::Jwt => AuthChallenge::Bearer,
            AuthMode::Local | AuthMode::Header => AuthChallenge::None,
        },
        public_url: settings.public_url.clone(),
        issuer: auth.jwt.issuer.clone().filter(|_| auth.mode == AuthMode::Jwt),
        scopes: if auth.mode == AuthMode::Jwt { auth.jwt.scopes.clone() } else { Vec::new() },
    };
    Ok(Authenticator::new(mode, &operator(), directory(loaded, http)?, resource))
}

/// The name of the user that the gateway runs as. It comes from the system, because an environment variable could be
/// wrong.
pub fn operator() -> String {
    let id = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    user.map(|user| user.name).filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_string())
}

/// The identity for an embedded gateway, which only this process can reach: every request is made as the owner.
/// Outside `local` mode it is the operator, as over the control socket of a running gateway.
pub fn owner(loaded: &LoadedConfig) -> Result<Authenticator, Problem> {
    let directory = directory(loaded, http())?;
    Ok(match loaded.settings.auth.mode {
        AuthMode::Local => Authenticator::new(
            IdentifyMode::Local(LocalAccess::Own),
            &operator(),
            directory,
            Resource::default(),
        ),
        AuthMode::Header | AuthMode::Token | AuthMode::Jwt => Authenticator::operator(&operator(), directory),
    })
}

fn header(auth: &AuthSettings) -> Result<IdentifyMode, Problem> {
    let header = &auth.header;
    let secret = header.secret.as_ref().filter(|secret| !secret.expose().is_empty());
    let secret = secret.ok_or_else(|| Problem {
        code: "config.no-proxy-secret",
        blame: Blame::Gateway,
        message: "`auth.mode` `header` needs `auth.header.secret`; without it, any client could impersonate any user".into(),
        hint: Some("set it to the value that your proxy sends in the header `auth.header.secret_header`".into()),
    })?;
    for name in [&header.name, &header.secret_header] {
        if http::HeaderName::try_from(name.as_str()).is_err() {
            return Err(Problem {
                code: "auth.bad-header",
                blame: Blame::Gateway,
                message: format!("`{name}` is not a valid header name"),
                hint: Some("check `auth.header`".into()),
            });
        }
    }
    Ok(IdentifyMode::Header(Proxy::new(&header.name, &header.secret_header, secret)))
}

fn jwt(auth: &AuthSettings, http: Arc<dyn HttpFetch>) -> Result<IdentifyMode, Problem> {
    let jwt = &auth.jwt;
    let (Some(issuer), false) = (&jwt.issuer, jwt.audience.is_empty()) else {
        return Err(Problem {
            code: "config.jwt-incomplete",
            blame: Blame::Gateway,
            message: "`auth.mode` `jwt` needs `auth.jwt.issuer` and `auth.jwt.audience`".into(),
            hint: None,
        });
    };
    let source = match &jwt.jwks_url {
        Some(url) => KeySource::Url(url.clone()),
        None => KeySource::Issuer(issuer.clone()),
    };
    let (KeySource::Url(place) | KeySource::Issuer(place)) = &source;
    let unsafe_url = |message| Problem {
        code: "auth.plain-http",
        blame: Blame::Gateway,
        message,
        hint: Some("use https, or a URL of this machine".into()),
    };
    if !is_safe(place) {
        return Err(unsafe_url(format!("keys from `{place}` cannot be trusted: it is not https")));
    }
    let console_client = console_client(auth, issuer, &http);
    if console_client.is_some() && !is_safe(issuer) {
        return Err(unsafe_url(format!("users cannot sign in at `{issuer}`: it is not https")));
    }
    let claims = ClaimNames {
        user: jwt.claims.user.clone(),
        groups: jwt.claims.groups.clone(),
        persona: jwt.claims.persona.clone(),
        level: jwt.claims.compliance_level.clone(),
    };
    let keys = IssuerKeys::new(http, source);
    let accepted = Jwt::new(issuer.clone(), jwt.audience.clone(), claims, keys);
    Ok(IdentifyMode::Jwt(Box::new(match console_client {
        Some(client) => accepted.with_console_client(client),
        None => accepted,
    })))
}

/// The client by which users of the console sign in at the identity provider, if it is configured.
pub fn console_client(auth: &AuthSettings, issuer: &str, http: &Arc<dyn HttpFetch>) -> Option<OidcClient> {
    let console = &auth.console;
    let settings = OidcSettings {
        issuer: issuer.to_owned(),
        client_id: console.client_id.clone()?,
        client_secret: console.client_secret.clone(),
        scopes: console.scopes.clone(),
        prompt: console.prompt.map(|prompt| match prompt {
            ConsolePrompt::Consent => ProviderPrompt::Consent,
            ConsolePrompt::Login => ProviderPrompt::Login,
            ConsolePrompt::SelectAccount => ProviderPrompt::SelectAccount,
        }),
        provider_name: console.provider_name.clone(),
    };
    Some(OidcClient::new(http.clone(), settings))
}

/// Whether a URL is safe against tampering: https, or on this machine.
fn is_safe(address: &str) -> bool {
    let Ok(uri) = address.parse::<http::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() == Some("https") || here
}

/// Builds the directory of users, groups, personas and levels.
pub fn directory(loaded: &LoadedConfig, http: Arc<dyn HttpFetch>) -> Result<Directory, Problem> {
    let settings = &loaded.settings;
    let mut groups_of: HashMap<String, BTreeSet<String>> = HashMap::new();
    for (group, members) in &settings.groups.members {
        for user in members {
            groups_of.entry(user.clone()).or_default().insert(group.clone());
        }
    }
    let groups = &settings.groups;
    let service = groups.service_url.as_ref().map(|url| {
        let believed_for = groups.cache_seconds.unwrap_or(BELIEVED_FOR);
        Arc::new(GroupService::new(http, url, groups.service_token.clone(), believed_for))
    });
    let rules = settings.compliance.levels.iter().map(|level| LevelRule {
        name: level.name.clone(),
        aliases: level.aliases.clone(),
        allowed_with: level.allowed_with.clone(),
    });
    Ok(Directory {
        groups_of,
        admin_group: settings.auth.admin_group.clone(),
        named: named_groups(loaded),
        service,
        personas: personas(settings)?,
        levels: Levels::new(&rules.collect::<Vec<_>>()),
        hiding_rules: terms::hiding_rules(settings)?,
    })
}

fn personas(settings: &Settings) -> Result<Personas, Problem> {
    let mut personas = Personas::new();
    for (name, persona) in &settings.personas {
        let inherit = match persona.inherit {
            Some(InheritSetting::Shared) => Inherit::Shared,
            None => Inherit::Nothing,
        };
        let made = Persona::new(name, persona.allowed_tools.as_deref(), inherit, persona.groups.clone());
        let made = made.map(|made| {
            made.described(persona.description.clone()).with_skills(persona.allowed_skills.clone())
        });
        let made = made.map_err(|error| Problem {
            code: "config.bad-glob",
            blame: Blame::Gateway,
            message: format!("`personas.{name}.allowed_tools`: {error}"),
            hint: None,
        })?;
        personas.insert(name.clone(), Arc::new(made));
    }
    Ok(personas)
}

/// The prompts of the gateway's own: those of the setting `prompts`, then those of personas.
pub fn own_prompts(settings: &Settings) -> Vec<OwnPrompt> {
    let written = settings.prompts.iter().map(|(name, prompt)| {
        let (description, text) = (prompt.description.clone(), prompt.text.clone());
        OwnPrompt::written(name, description, text, prompt.groups.clone())
    });
    let of_personas = settings.personas.iter().filter_map(|(name, persona)| {
        let text = persona.prompt.clone()?;
        Some(OwnPrompt::of_persona(persona::prompt_name(name), name, persona.description.clone(), text))
    });
    written.chain(of_personas).collect()
}

/// The groups that a setting names. The group service is asked only about these.
fn named_groups(loaded: &LoadedConfig) -> Vec<Arc<str>> {
    let settings = &loaded.settings;
    let mut named: BTreeSet<&str> = BTreeSet::from([settings.auth.admin_group.as_str()]);
    let entries = loaded.servers.iter().filter_map(|server| server.state.entry());
    named.extend(entries.flat_map(|entry| &entry.groups).map(String::as_str));
    named.extend(settings.approval.approvers.iter().map(String::as_str));
    named.extend(settings.personas.values().flat_map(|p| p.groups.iter().flatten()).map(String::as_str));
    named.extend(settings.prompts.values().flat_map(|p| p.groups.iter().flatten()).map(String::as_str));
    named.extend(loaded.skills.iter().flat_map(|skill| skill.groups.iter().flatten()).map(String::as_str));
    let layers = settings.policy.layers.iter().flat_map(|layer| &layer.rules);
    for rule in layers.chain(&settings.policy.rules) {
        if let SubjectSetting::Group(name) = &rule.subject {
            named.insert(name);
        }
    }
    named.remove(EVERYONE);
    named.into_iter().map(Arc::from).collect()
}
