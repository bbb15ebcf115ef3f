//! Who may call, by the settings: from `auth`, `groups`, `personas` and `compliance` to an identity.

use crate::terms;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_config::settings::{
    Auth, AuthMode, Inherit as ConfiguredInherit, LocalUsers as ConfiguredUsers, Subject,
};
use toolbooth_config::{Loaded, Settings};
use toolbooth_core::caller::EVERYONE;
use toolbooth_core::compliance::{LevelRule, Levels};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::persona::{Inherit, Persona, Personas};
use toolbooth_server::identify::jwt::{ClaimNames, Jwt, KeySource, Keys};
use toolbooth_server::identify::{Challenge, Directory, GroupService, Identity, Mode, Proxy, Resource};
use toolbooth_server::peer::LocalUsers;
use toolbooth_upstream::http::Fetch;
use toolbooth_upstream::oauth::Http;

/// How long the group service is believed when the settings do not say.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// Who calls, by the settings.
pub fn identity(loaded: &Loaded) -> Result<Identity, Problem> {
    identity_at(loaded, loaded.settings.listen.0)
}

/// What is fetched over HTTP to know callers.
pub fn http() -> Arc<dyn Http> {
    Arc::new(Fetch::default())
}

/// The same for a gateway that listens already, which a file cannot change any more.
pub fn identity_at(loaded: &Loaded, address: SocketAddr) -> Result<Identity, Problem> {
    let settings = &loaded.settings;
    let auth = &settings.auth;
    if auth.mode == AuthMode::Local && !address.ip().is_loopback() {
        return Err(Problem {
            code: "auth.local-beyond-loopback",
            blame: Blame::Gateway,
            message: format!("in `local` mode everyone who can reach {} would be you", address),
            hint: Some("listen on 127.0.0.1, or set `auth.mode` to `token`, `header` or `jwt`".into()),
        });
    }
    let http = http();
    let mode = match auth.mode {
        AuthMode::Local => Mode::Local(match auth.local_users {
            ConfiguredUsers::Own => LocalUsers::Own,
            ConfiguredUsers::Any => LocalUsers::Any,
        }),
        AuthMode::Header => header(auth)?,
        AuthMode::Token => Mode::Token,
        AuthMode::Jwt => jwt(auth, http.clone())?,
    };
    let resource = Resource {
        challenge: match auth.mode {
            AuthMode::Token | AuthMode::Jwt => Challenge::Bearer,
            AuthMode::Local | AuthMode::Header => Challenge::None,
        },
        public_url: settings.public_url.clone(),
        issuer: auth.jwt.issuer.clone().filter(|_| auth.mode == AuthMode::Jwt),
    };
    Ok(Identity::new(mode, &operator(), directory(loaded, http)?, resource))
}

/// The user whom the gateway runs as, and who alone can open its local socket. The system says so; a
/// variable could say anything.
pub fn operator() -> String {
    let id = nix::unistd::getuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    user.map(|user| user.name).filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_string())
}

/// Everyone who can reach the gateway is its owner: one inside a command, which nobody else can reach. Outside `local`
/// mode it is the operator, as over the control socket of a gateway that runs.
pub fn owner(loaded: &Loaded) -> Result<Identity, Problem> {
    let directory = directory(loaded, http())?;
    Ok(match loaded.settings.auth.mode {
        AuthMode::Local => {
            Identity::new(Mode::Local(LocalUsers::Own), &operator(), directory, Resource::default())
        }
        AuthMode::Header | AuthMode::Token | AuthMode::Jwt => Identity::operator(&operator(), directory),
    })
}

fn header(auth: &Auth) -> Result<Mode, Problem> {
    let header = &auth.header;
    let secret = header.secret.as_ref().filter(|secret| !secret.expose().is_empty());
    let secret = secret.ok_or_else(|| Problem {
        code: "config.no-proxy-secret",
        blame: Blame::Gateway,
        message: "`auth.mode` `header` needs `auth.header.secret`, or anybody could name any user".into(),
        hint: Some("set it to the text that your proxy sends in `auth.header.secret_header`".into()),
    })?;
    for name in [&header.name, &header.secret_header] {
        if http::HeaderName::try_from(name.as_str()).is_err() {
            return Err(Problem {
                code: "auth.bad-header",
                blame: Blame::Gateway,
                message: format!("`{name}` cannot be the name of a header"),
                hint: Some("check `auth.header`".into()),
            });
        }
    }
    Ok(Mode::Header(Proxy::new(&header.name, &header.secret_header, secret)))
}

fn jwt(auth: &Auth, http: Arc<dyn Http>) -> Result<Mode, Problem> {
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
    if !is_safe(place) {
        return Err(Problem {
            code: "auth.plain-http",
            blame: Blame::Gateway,
            message: format!("keys from `{place}` could be anybody's: it is not https"),
            hint: Some("use https, or an address of this machine".into()),
        });
    }
    let claims = ClaimNames {
        user: jwt.claims.user.clone(),
        groups: jwt.claims.groups.clone(),
        persona: jwt.claims.persona.clone(),
        level: jwt.claims.compliance_level.clone(),
    };
    let keys = Keys::new(http, source);
    Ok(Mode::Jwt(Box::new(Jwt::new(issuer.clone(), jwt.audience.clone(), claims, keys))))
}

/// Whether what is fetched from an address is what was put there.
fn is_safe(address: &str) -> bool {
    let Ok(uri) = address.parse::<http::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() == Some("https") || here
}

/// What the configuration says about users.
pub fn directory(loaded: &Loaded, http: Arc<dyn Http>) -> Result<Directory, Problem> {
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
        veil: terms::veil(settings)?,
    })
}

fn personas(settings: &Settings) -> Result<Personas, Problem> {
    let mut personas = Personas::new();
    for (name, persona) in &settings.personas {
        let inherit = match persona.inherit {
            Some(ConfiguredInherit::Shared) => Inherit::Shared,
            None => Inherit::Nothing,
        };
        let made = Persona::new(name, persona.allowed_tools.as_deref(), inherit, persona.groups.clone());
        let made = made.map(|made| made.described(persona.description.clone()));
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

/// The groups that decide anything: no service is asked about others.
fn named_groups(loaded: &Loaded) -> Vec<Arc<str>> {
    let settings = &loaded.settings;
    let mut named: BTreeSet<&str> = BTreeSet::from([settings.auth.admin_group.as_str()]);
    let entries = loaded.servers.iter().filter_map(|server| server.state.entry());
    named.extend(entries.flat_map(|entry| &entry.groups).map(String::as_str));
    named.extend(settings.approval.approvers.iter().map(String::as_str));
    named.extend(settings.personas.values().flat_map(|p| p.groups.iter().flatten()).map(String::as_str));
    let layers = settings.policy.layers.iter().flat_map(|layer| &layer.rules);
    for rule in layers.chain(&settings.policy.rules) {
        if let Subject::Group(name) = &rule.subject {
            named.insert(name);
        }
    }
    named.remove(EVERYONE);
    named.into_iter().map(Arc::from).collect()
}
