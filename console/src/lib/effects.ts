// What the configuration says about the side effects of a tool.

/**
 * `network` is also the gateway's word for a tool about which nothing is said. It counts as a statement only if a file defines
 * the tool itself.
 */
export const statedEffects = ({ side_effects: label, origin }: { side_effects: string; origin?: string | null }): string =>
  label === 'network' && !origin ? 'not stated' : label;
