//! Held calls and plans in memory.

use crate::StoreError;
use crate::held::{HeldFilter, HeldPage, HeldStep, HeldUpdate, OpenCount, narrowest};
use crate::limits::{
    MAX_HELD, MAX_HELD_PAGE, MAX_HELD_RESULTS, MAX_OPEN_PLANS, MAX_PLAN_STEPS, MAX_PLANS_PAGE, MAX_SWEEP,
};
use std::collections::{BTreeMap, HashMap};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::held::{HeldCall, HeldState};
use toolbooth_core::plan::{Plan, PlanState, PlanStep};
use uuid::Uuid;

#[derive(Debug, Default)]
pub(super) struct HeldTable {
    calls: BTreeMap<u64, HeldCall>,
    place: HashMap<Uuid, u64>,
    next_place: u64,
    // In the order they were opened, with the number of the last step of each.
    plans: Vec<(Plan, u32)>,
}

fn is_open(call: &HeldCall) -> bool {
    matches!(call.state, HeldState::Pending | HeldState::Approved)
}

impl HeldTable {
    pub(super) fn hold(&mut self, call: HeldCall) -> Result<(), StoreError> {
        if let Some(kept) = self.get(call.id) {
            let call_id = call.id;
            return if kept == call { Ok(()) } else { Err(StoreError::Conflict { call_id }) };
        }
        let open = || self.calls.values().filter(|call| is_open(call));
        let of_user = open().filter(|other| other.user == call.user).count();
        OpenCount { all: open().count(), of_user }.check()?;
        self.place.insert(call.id, self.next_place);
        self.calls.insert(self.next_place, call);
        self.next_place += 1;
        // `purge` may never be called.
        if self.next_place.is_multiple_of(100) {
            self.drop_surplus();
        }
        Ok(())
    }

    pub(super) fn get(&self, id: Uuid) -> Option<HeldCall> {
        self.calls.get(self.place.get(&id)?).cloned()
    }

    pub(super) fn list(&self, filter: &HeldFilter) -> Vec<HeldCall> {
        let before = match filter.before {
            None => u64::MAX,
            Some(id) => self.place.get(&id).copied().unwrap_or(0),
        };
        let wanted = |call: &&HeldCall| {
            filter.user.as_ref().is_none_or(|user| call.user == *user)
                && filter.kind.is_none_or(|kind| call.kind == kind)
                && (filter.states.is_empty() || filter.states.contains(&call.state))
                && filter.plan.is_none_or(|plan| call.plan.is_some_and(|step| step.plan == plan))
                && (filter.of_call.is_none()
                    || call.origin.as_ref().map(|origin| origin.call) == filter.of_call)
                && filter.call.as_ref().is_none_or(|same| {
                    call.server == same.server
                        && call.tool == same.tool
                        && call.arguments_sha256 == same.arguments_sha256
                })
        };
        let limit = filter.limit.unwrap_or(MAX_HELD_PAGE).min(MAX_HELD_PAGE) as usize;
        let mut page = HeldPage::default();
        for call in self.calls.range(..before).rev().map(|(_, call)| call).filter(wanted).take(limit) {
            if !page.add(without_result(call.clone())) {
                break;
            }
        }
        page.calls
    }

    pub(super) fn step(&mut self, id: Uuid, step: HeldStep) -> HeldUpdate {
        let Some(kept) = self.place.get(&id).and_then(|place| self.calls.get_mut(place)) else {
            return HeldUpdate::Missing;
        };
        let update = step.apply(kept.clone());
        if let HeldUpdate::Won(call) = &update {
            *kept = call.clone();
        }
        update
    }

    /// Replaces open calls for which `change` returns a new state; returns those calls and their audit entries.
    pub(super) fn sweep(
        &mut self,
        at_ms: i64,
        change: impl Fn(&HeldCall) -> Option<HeldCall>,
    ) -> (Vec<HeldCall>, Vec<AuditEntry>) {
        let mut moved = Vec::new();
        for call in self.calls.values_mut().filter(|call| is_open(call)) {
            if moved.len() < MAX_SWEEP
                && let Some(next) = change(call)
            {
                *call = next.clone();
                moved.push(next);
            }
        }
        let traces = moved.iter().map(|call| call.audit_entry(at_ms)).collect();
        (moved, traces)
    }

    pub(super) fn open_plan(&mut self, plan: Plan) -> Result<Plan, StoreError> {
        if let Some((kept, _)) = self.plans.iter().find(|(kept, _)| kept.id == plan.id) {
            let name = plan.id.to_string();
            return if *kept == plan { Ok(plan) } else { Err(StoreError::Taken { what: "plan", name }) };
        }
        let open: Vec<_> = self.plans.iter().filter(|(kept, _)| kept.is_open_of(&plan.user)).collect();
        if let Some((kept, _)) = open.iter().find(|(kept, _)| kept.has_scope_of(&plan)) {
            return Ok(kept.clone());
        }
        if open.len() >= MAX_OPEN_PLANS {
            return Err(StoreError::Full { what: "open plans" });
        }
        self.plans.push((plan.clone(), 0));
        Ok(plan)
    }

    pub(super) fn plan_of(&self, user: &str, persona: Option<&str>, session: Option<&str>) -> Option<Plan> {
        narrowest(self.plans.iter().rev().map(|(plan, _)| plan), user, persona, session).cloned()
    }

    pub(super) fn plans(&self, user: Option<&str>) -> Vec<Plan> {
        let newest = self.plans.iter().rev().map(|(plan, _)| plan);
        let wanted = newest.filter(|plan| user.is_none_or(|user| plan.user == user));
        wanted.take(MAX_PLANS_PAGE as usize).cloned().collect()
    }

    pub(super) fn close_plan(&mut self, id: Uuid, at_ms: i64) -> Option<Plan> {
        let (plan, _) = self.plans.iter_mut().find(|(plan, _)| plan.id == id)?;
        *plan = plan.close(at_ms);
        Some(plan.clone())
    }

    pub(super) fn queue_step(&mut self, plan: Uuid, mut call: HeldCall) -> Result<u32, StoreError> {
        if let Some(kept) = self.get(call.id) {
            return match kept.plan {
                Some(place) if place.plan == plan => Ok(place.step),
                _ => Err(StoreError::Conflict { call_id: call.id }),
            };
        }
        let found = self.plans.iter().position(|(kept, _)| kept.id == plan && kept.state == PlanState::Open);
        let place = found.ok_or(StoreError::NoPlan { plan })?;
        let step = self.plans[place].1 + 1;
        if step > MAX_PLAN_STEPS {
            return Err(StoreError::Full { what: "steps of one plan" });
        }
        call.plan = Some(PlanStep { plan, step });
        self.hold(call)?;
        self.plans[place].1 = step;
        Ok(step)
    }

    pub(super) fn purge(&mut self, horizon_ms: i64) {
        self.drop_closed(|_, call| call.created_ms < horizon_ms);
        self.drop_surplus();
        let calls = &self.calls;
        let has_steps =
            |plan: &Plan| calls.values().any(|call| call.plan.is_some_and(|place| place.plan == plan.id));
        self.plans.retain(|(plan, _)| {
            plan.closed_ms.is_none_or(|closed_ms| closed_ms >= horizon_ms) || has_steps(plan)
        });
    }

    fn drop_surplus(&mut self) {
        let newest = self.next_place.saturating_sub(1);
        if let Some(last) = newest.checked_sub(u64::from(MAX_HELD)) {
            self.drop_closed(|place, _| place <= last);
        }
        if let Some(last) = newest.checked_sub(u64::from(MAX_HELD_RESULTS)) {
            for call in self.calls.range_mut(..=last).filter_map(|(_, call)| call.outcome.as_mut()) {
                call.result = None;
            }
        }
    }

    fn drop_closed(&mut self, unwanted: impl Fn(u64, &HeldCall) -> bool) {
        let places = &mut self.place;
        self.calls.retain(|place, call| {
            let keep = is_open(call) || !unwanted(*place, call);
            if !keep {
                places.remove(&call.id);
            }
            keep
        });
    }
}

fn without_result(mut call: HeldCall) -> HeldCall {
    if let Some(outcome) = &mut call.outcome {
        outcome.result = None;
    }
    call
}
