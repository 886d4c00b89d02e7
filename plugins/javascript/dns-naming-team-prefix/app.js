// A sample: an endpoint's name begins with the team that owns the cluster's namespace.
//
// The team comes from a map, else from a pattern with `*` for the team's place. A team may have a domain of its own;
// it is only answered when the host allows it as well.

import { log } from "capmaas:policy/host@0.1.0";
import { below, check, read } from "../settings.js";

const LONGEST_LABEL = 63;
// Room for the suffix, its hyphen, and a few letters of the cluster's name.
const LONGEST_TEAM = 40;

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  additionalProperties: false,
  properties: {
    teams: {
      description: "Namespace to team.",
      type: "object",
      additionalProperties: { type: "string", minLength: 1 },
      default: {},
    },
    namespacePattern: {
      description: "For namespaces not in teams: text with one * where the team stands, as in team-*-clusters.",
      type: "string",
      minLength: 1,
    },
    domains: {
      description:
        "Team to domain. Other teams, and teams whose domain the host does not allow, get the cluster's own domain.",
      type: "object",
      additionalProperties: { type: "string", minLength: 1 },
      default: {},
    },
    unknownTeam: {
      description:
        "Team of a namespace that neither teams nor namespacePattern knows. " +
        "Without it, such a cluster gets the built-in name.",
      type: "string",
      minLength: 1,
    },
  },
};

export const metadata = {
  describe() {
    return {
      name: "dns-naming-team-prefix",
      version: "0.1.0",
      summary: "an endpoint's name begins with the team that owns the namespace",
      configSchema: JSON.stringify(SCHEMA),
    };
  },

  checkConfig(config) {
    const issues = check(SCHEMA, config);
    if (issues.length === 0) issues.push(...beyondSchema(read(SCHEMA, config)));
    // A result's error is thrown.
    if (issues.length > 0) throw issues;
  },
};

export const dnsNaming = {
  propose({ context, suffix, allowedDomains }) {
    const config = read(SCHEMA, context.config);
    const team = teamOf(config, context.namespace);
    if (team === null) {
      log("info", `no team for namespace ${context.namespace}: the built-in name`);
      return null;
    }
    const label = labelOf(team, context.cluster, suffix);
    return { label, domain: domainOf(config, team, allowedDomains), ttlSeconds: null };
  },
};

function teamOf({ teams, namespacePattern, unknownTeam }, namespace) {
  if (Object.hasOwn(teams, namespace)) return teams[namespace];
  if (namespacePattern !== undefined) {
    const [before, after] = namespacePattern.split("*");
    const long = namespace.length > before.length + after.length;
    if (long && namespace.startsWith(before) && namespace.endsWith(after)) {
      return namespace.slice(before.length, namespace.length - after.length);
    }
  }
  return unknownTeam ?? null;
}

function labelOf(team, cluster, suffix) {
  const front = safe(team).slice(0, LONGEST_TEAM);
  const room = LONGEST_LABEL - front.length - suffix.length - 2;
  // Only the cluster's name is cut: the suffix keeps two names apart.
  return [front, safe(cluster).slice(0, room), suffix].map(safe).filter((part) => part !== "").join("-");
}

function domainOf({ domains }, team, allowed) {
  if (!Object.hasOwn(domains, team)) return null;
  if (allowed.includes(domains[team])) return domains[team];
  log("warn", `domain ${domains[team]} of team ${team} is not allowed here: the cluster's own domain`);
  return null;
}

function safe(text) {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "");
}

function beyondSchema({ teams, namespacePattern, domains, unknownTeam }) {
  const issues = [];
  const wrong = (pointer, problem) => issues.push({ pointer, problem });
  const names = Object.entries(teams).map(([namespace, team]) => [below("/teams", namespace), team]);
  if (unknownTeam !== undefined) names.push(["/unknownTeam", unknownTeam]);
  for (const [pointer, team] of names) {
    if (safe(team) !== team || team.length > LONGEST_TEAM) {
      const shown = JSON.stringify(team);
      const remedy = `give a-z, 0-9 and -, at most ${LONGEST_TEAM} of them`;
      wrong(pointer, `${shown} cannot begin a name; ${remedy}`);
    }
  }
  if (namespacePattern !== undefined && namespacePattern.split("*").length !== 2) {
    const shown = JSON.stringify(namespacePattern);
    wrong("/namespacePattern", `${shown} needs exactly one *, where the team stands`);
  }
  if (Object.keys(teams).length === 0 && namespacePattern === undefined && unknownTeam === undefined) {
    wrong("", "no namespace has a team; give teams, namespacePattern or unknownTeam");
  }
  for (const team of Object.keys(domains)) {
    const named = unknownTeam === team || Object.values(teams).includes(team);
    // A pattern may yield any team.
    if (!named && namespacePattern === undefined) {
      wrong(below("/domains", team), "no namespace has this team; name it in teams");
    }
  }
  return issues;
}
