//! What goes out by itself: events to webhooks, spans to a collector.

use toolbooth_config::Settings;
use toolbooth_core::event::Kinds;
use toolbooth_core::fault::Problem;
use toolbooth_engine::Engine;
use toolbooth_engine::events::Webhook;
use toolbooth_engine::trace::Collector;

/// What of the settings goes out, read before anything is put to work.
pub struct Outward {
    webhooks: Vec<Webhook>,
    collector: Option<Collector>,
}

impl Outward {
    /// Reads the settings; a type of event that there is none of is an error.
    pub fn of(settings: &Settings) -> Result<Self, Problem> {
        let webhooks = settings.events.webhooks.iter().map(|hook| {
            let kinds =
                Kinds::of(hook.types.iter().map(String::as_str)).map_err(|fault| Problem::of(&fault))?;
            Ok(Webhook { url: hook.url.clone(), kinds, secret: hook.secret.clone() })
        });
        let collector = settings.telemetry.otlp_url.clone().map(|url| {
            let headers = settings.telemetry.headers.clone();
            Collector { url, headers }
        });
        Ok(Self { webhooks: webhooks.collect::<Result<_, Problem>>()?, collector })
    }

    /// Puts it to work, in place of what was there before.
    pub fn put_to_work(self, engine: &Engine) {
        engine.events().set_webhooks(self.webhooks);
        engine.tracing().set_collector(self.collector);
    }
}
