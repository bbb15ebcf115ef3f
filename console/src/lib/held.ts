// Who made a held call, and the plans of held steps.

import type { Approval } from '../api/queries';

/** The user of a call and, if it is known, the client. */
export const callerOf = (call: Approval) => (call.client && call.client !== 'unknown' ? `${call.user} via ${call.client}` : call.user);

export function groupByPlan(steps: Approval[]): Map<string, Approval[]> {
  const plans = new Map<string, Approval[]>();
  for (const step of steps) {
    if (step.plan) plans.set(step.plan.id, [...(plans.get(step.plan.id) ?? []), step]);
  }
  return plans;
}
