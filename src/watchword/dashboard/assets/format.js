// Formats times as the command line does: short, and never more exact than useful.

const UNITS = [[120, 1, "s"], [7200, 60, "m"], [172800, 3600, "h"]];

export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [below, size, unit] of UNITS) if (whole < below) return `${Math.floor(whole / size)}${unit}`;
  return `${Math.floor(whole / 86400)}d`;
}

export function ago(seconds, now) {
  return seconds === null ? "–" : `${age(now - seconds)} ago`;
}

export function timeLeft(expires, now) {
  if (expires === null) return "–";
  return expires > now ? age(expires - now) : "expired";
}

export function renewal(row, now) {
  if (row.renewal === null) return "–";
  return row.renewal > now ? `in ${age(row.renewal - now)}` : ago(row.renewal, now);
}

export function instant(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return `${new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ")}Z`;
}

export function clock(text) {
  return text.length >= 19 ? `${text.slice(0, 10)} ${text.slice(11, 19)}Z` : text;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Text whose plain order is the natural one: cluster2 before cluster10.
export function sortKey(text) {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(16, "0"));
}
