//! The caller's identity, for tools that declare a parameter for it.

use super::{InjectionContext, Injector, Supplied};
use crate::call::CallFault;
use crate::catalog::TextFit;
use crate::json::{Member, RawJson};

/// Supplies the authenticated user.
#[derive(Debug, Default)]
pub struct IdentityInjector;

impl Injector for IdentityInjector {
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Supplied, CallFault> {
        let Some(injected) = &context.tool.injected else { return Ok(Supplied::default()) };
        let one = |argument: &crate::catalog::IdentityArgument| match argument.fit {
            TextFit::Text => {
                let value = RawJson::from_value(&*context.caller.user);
                Ok(Member { key: argument.name.to_string(), value })
            }
            // Without an identity, the server would act for no user, or for one of its choice.
            TextFit::Other => Err(CallFault::IdentityNotText {
                name: context.tool.exposed.to_string(),
                argument: argument.name.to_string(),
            }),
        };
        Ok(injected.identity.iter().map(one).collect::<Result<Vec<_>, _>>()?.into())
    }
}
