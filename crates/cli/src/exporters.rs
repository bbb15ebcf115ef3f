//! Exports of the gateway: events to webhooks, spans to an OTLP collector.

use std::sync::Arc;
use toolbooth_config::Settings;
use toolbooth_core::event::EventKinds;
use toolbooth_core::fault::Problem;
use toolbooth_engine::EventRing;
use toolbooth_engine::events::Webhook;
use toolbooth_engine::trace::{Collector, Tracing};

/// The configured exporters, validated before they are started.
pub struct Exporters {
    webhooks: Vec<Webhook>,
    collector: Option<Collector>,
}

impl Exporters {
    /// Reads the settings; an unknown event type is an error.
    pub fn of(settings: &Settings) -> Result<Self, Problem> {
        let webhooks = settings.events.webhooks.iter().map(|hook| {
            let kinds =
                EventKinds::of(hook.types.iter().map(String::as_str)).map_err(|fault| Problem::of(&fault))?;
            Ok(Webhook { url: hook.url.clone(), kinds, secret: hook.secret.clone() })
        });
        let collector = settings.telemetry.otlp_url.clone().map(|url| {
            let headers = settings.telemetry.headers.clone();
            Collector { url, headers }
        });
        Ok(Self { webhooks: webhooks.collect::<Result<_, Problem>>()?, collector })
    }

    /// Installs the exporters in place of the previous ones.
    pub fn install(self, events: &Arc<EventRing>, tracing: &Tracing) {
        events.set_webhooks(self.webhooks);
        tracing.set_collector(self.collector);
    }
}
