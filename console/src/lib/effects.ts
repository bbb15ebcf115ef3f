// What the configuration says about the side effects of a tool.

/**
 * `network` is also the gateway's word for a tool about which nothing is said, so it is no statement unless a file defines
 * the tool itself.
 */
export const statedEffects = ({ side_effects: label, origin }: { side_effects: string; origin?: string | null }): string =>
  label === 'network' && !origin ? 'not stated' : label;
