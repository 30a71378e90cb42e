// Numbers, times and durations as people read them.

const whole = new Intl.NumberFormat("en");
const brief = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const minute = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];
const SIZES = ["kB", "MB", "GB", "TB"];

export const number = (value) => whole.format(value);
export const short = (value) => (value < 10_000 ? whole.format(Math.round(value)) : brief.format(value));
export const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
export const moment = (at) => clock.format(at);
export const day = (at) => minute.format(at);

export function size(bytes) {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), SIZES.length);
  return power ? `${brief.format(bytes / 1_000 ** power)} ${SIZES[power - 1]}` : count(bytes, "byte");
}

/** A duration in its two largest units: "2 h 5 min". */
export function span(milliseconds) {
  if (milliseconds < 1_000) return milliseconds <= 0 ? "0 s" : "under 1 s";
  const first = UNITS.findIndex(([, size]) => milliseconds >= size);
  const [unit, size] = UNITS[first];
  const value = Math.floor(milliseconds / size);
  const [smaller, part] = UNITS[first + 1] ?? [];
  const rest = part ? Math.floor((milliseconds - value * size) / part) : 0;
  return rest && value < 10 ? `${value} ${unit} ${rest} ${smaller}` : `${value} ${unit}`;
}

/** Before or after now: "3 min ago", "in 1 h 57 min". How long ago something was seen is told in one unit. */
export function relative(at, now = Date.now()) {
  const past = now - at;
  if (Math.abs(past) < 1_500) return "now";
  return past > 0 ? `${span(past).split(" ").slice(0, 2).join(" ")} ago` : `in ${span(-past)}`;
}
