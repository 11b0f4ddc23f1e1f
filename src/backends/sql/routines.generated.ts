// Generated from the .sql files beside it by scripts/embed.mjs; do not edit.
import type { Routine } from "./routines.js";

const shared = {
  "advance": {"sql":"UPDATE @resources\nSET last_ticket = greatest(last_ticket + 1, @wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END)\nWHERE name = :name","counts":"advanced"},
  "draw": {"sql":"INSERT INTO @resources (name, last_ticket)\nVALUES (:name, greatest(@wall, CASE WHEN :floor <= @wall + 3600000000 THEN :floor ELSE 0 END))\nON CONFLICT (name) DO UPDATE SET last_ticket = greatest(@resources.last_ticket + 1, excluded.last_ticket)"},
  "lock": {"select":"SELECT coalesce((SELECT 1 FROM @resources WHERE name = :name FOR UPDATE), 0) AS locked\n","from":"FROM (SELECT 1 AS one) AS here","into":["locked"],"locks":true},
  "clock": {"engine":"clock"},
  "drop-expired": {"sql":"DELETE FROM @claims WHERE name = :name AND deadline_us <= :now_us","counts":"removed"},
  "why": {"select":"SELECT reason, by_whom ","from":"FROM @forced WHERE id = :id AND until_us > :now_us","into":["reason","by_whom"]},
  "notify": {"engine":"notify"},
  "notify-if-removed": {"engine":"notify-if-removed"},
  "notify-released": {"engine":"notify-released"},
  "tell-sticky-holder": {"engine":"tell-sticky-holder"},
} as const;

export const claim: Routine = {
  name: "claim",
  inputs: {"name":"name","id":"id","asked":"bigint","weight":"integer","capacity":"integer","ttl_us":"bigint","fixed":"integer","min_hold_us":"bigint","queue":"integer","capped":"integer","max_waiters":"integer","owner":"text","note":"text","bell":"text","floor":"bigint"},
  locals: {"advanced":"integer","now_us":"bigint","wall_us":"bigint","drawn":"bigint","occupied":"integer","verdict":"text","ticket":"bigint","granted_us":"bigint","deadline_us":"bigint","enters":"integer","is_gone":"integer","catches_up":"integer","remaining_us":"bigint","mine":"bigint","own_weight":"integer","own_capacity":"integer","own_fixed":"integer","own_min_hold_us":"bigint","own_granted_us":"bigint","own_deadline_us":"bigint","has_left":"integer","ahead":"bigint","live_capacity":"integer","soonest_us":"bigint","expired":"integer","removed":"integer","waiters":"integer","stays":"integer","change_us":"bigint","reason":"text","by_whom":"text"},
  steps: [
    shared["advance"],
    { ...shared["draw"], unless: "advanced" },
    shared["clock"],
    {"select":"SELECT\n  last_ticket AS drawn,\n  (SELECT count(*) FROM (SELECT 1 AS one FROM @claims WHERE name = :name LIMIT 1) AS any_claim) AS occupied\n","from":"FROM @resources\nWHERE name = :name","into":["drawn","occupied"]},
    {"values":{"verdict":"CASE WHEN :asked > 0 THEN 'gone' ELSE 'granted' END","ticket":"CASE WHEN :drawn < :wall_us - 1000000 THEN :wall_us ELSE :drawn END","granted_us":":now_us","deadline_us":":now_us + greatest(:ttl_us, :min_hold_us)","enters":"CASE WHEN :asked > 0 THEN 0 ELSE 1 END","is_gone":"CASE WHEN :asked > 0 THEN 1 ELSE 0 END","catches_up":"CASE WHEN :drawn < :wall_us - 1000000 THEN 1 ELSE 0 END","remaining_us":"greatest(:ttl_us, :min_hold_us)"},"unless":"occupied"},
    {"select":"SELECT\n  coalesce(max(own.ticket), 0) AS mine,\n  coalesce(max(own.weight), 0) AS own_weight,\n  coalesce(max(own.capacity), 0) AS own_capacity,\n  coalesce(max(own.fixed), 0) AS own_fixed,\n  coalesce(max(own.min_hold_us), :min_hold_us) AS own_min_hold_us,\n  max(own.granted_us) AS own_granted_us,\n  coalesce(max(own.deadline_us), 0) AS own_deadline_us,\n  coalesce(max(own.has_left), 0) AS has_left,\n  coalesce(\n    sum(\n      CASE\n        WHEN other.deadline_us > :now_us AND other.ticket < coalesce(own.ticket, 9007199254740991)\n        THEN other.weight\n      END\n    ),\n    0\n  ) AS ahead,\n  max(CASE WHEN other.deadline_us > :now_us THEN other.capacity END) AS live_capacity,\n  coalesce(\n    min(CASE WHEN other.deadline_us > :now_us AND other.id <> :id THEN other.deadline_us END),\n    9007199254740991\n  ) AS soonest_us,\n  sum(CASE WHEN other.deadline_us <= :now_us THEN 1 ELSE 0 END) AS expired\n","from":"FROM (SELECT 1 AS one) AS here\nLEFT JOIN @claims AS own ON own.name = :name AND own.id = :id AND own.deadline_us > :now_us\nLEFT JOIN @claims AS other ON other.name = :name","into":["mine","own_weight","own_capacity","own_fixed","own_min_hold_us","own_granted_us","own_deadline_us","has_left","ahead","live_capacity","soonest_us","expired"],"when":"occupied"},
    { ...shared["drop-expired"], when: "expired" },
    {"select":"SELECT\n  coalesce(max(own.ticket), 0) AS mine,\n  coalesce(max(own.weight), 0) AS own_weight,\n  coalesce(max(own.capacity), 0) AS own_capacity,\n  coalesce(max(own.fixed), 0) AS own_fixed,\n  coalesce(max(own.min_hold_us), :min_hold_us) AS own_min_hold_us,\n  max(own.granted_us) AS own_granted_us,\n  coalesce(max(own.deadline_us), 0) AS own_deadline_us,\n  coalesce(max(own.has_left), 0) AS has_left,\n  coalesce(\n    sum(\n      CASE\n        WHEN other.deadline_us > :now_us AND other.ticket < coalesce(own.ticket, 9007199254740991)\n        THEN other.weight\n      END\n    ),\n    0\n  ) AS ahead,\n  max(CASE WHEN other.deadline_us > :now_us THEN other.capacity END) AS live_capacity,\n  coalesce(\n    min(CASE WHEN other.deadline_us > :now_us AND other.id <> :id THEN other.deadline_us END),\n    9007199254740991\n  ) AS soonest_us,\n  sum(CASE WHEN other.deadline_us <= :now_us THEN 1 ELSE 0 END) AS expired\n","from":"FROM (SELECT 1 AS one) AS here\nLEFT JOIN @claims AS own ON own.name = :name AND own.id = :id AND own.deadline_us > :now_us\nLEFT JOIN @claims AS other ON other.name = :name","into":["mine","own_weight","own_capacity","own_fixed","own_min_hold_us","own_granted_us","own_deadline_us","has_left","ahead","live_capacity","soonest_us","expired"],"when":"expired"},
    {"select":"SELECT count(*) AS waiters\n","from":"FROM (\n  SELECT capacity, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total\n  FROM @claims\n  WHERE name = :name AND deadline_us > :now_us\n) AS line\nWHERE total > capacity","into":["waiters"],"when":"capped"},
    {"values":{"verdict":"CASE\n    WHEN :mine = 0 AND :asked > 0 THEN 'gone'\n    WHEN :mine = 0 AND :live_capacity <> :capacity THEN 'capacity-mismatch'\n    WHEN :mine = 0 AND :ahead + :weight <= :capacity THEN 'granted'\n    WHEN :mine = 0 AND :queue = 0 THEN 'refused'\n    WHEN :mine = 0 AND :capped = 1 AND :waiters >= :max_waiters THEN 'queue-full'\n    WHEN :mine = 0 THEN 'waiting'\n    WHEN :has_left = 1 OR (:asked > 0 AND :asked <> :mine) THEN 'gone'\n    WHEN :ahead + :own_weight <= :own_capacity THEN 'granted'\n    ELSE 'waiting'\n  END"},"when":"occupied"},
    {"values":{"ticket":"CASE\n    WHEN :mine > 0 THEN :mine\n    WHEN :drawn < :wall_us - 1000000 THEN :wall_us\n    ELSE :drawn\n  END","granted_us":"CASE WHEN :verdict = 'granted' THEN coalesce(:own_granted_us, :now_us) ELSE :own_granted_us END","deadline_us":"greatest(\n    :own_deadline_us,\n    CASE\n      WHEN :verdict <> 'granted' THEN :now_us + :ttl_us\n      WHEN :own_granted_us IS NULL THEN :now_us + greatest(:ttl_us, :own_min_hold_us)\n      WHEN :own_fixed = 1 THEN 0\n      ELSE :now_us + :ttl_us\n    END\n  )","enters":"CASE WHEN :mine = 0 AND :verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END","stays":"CASE WHEN :mine > 0 AND :verdict IN ('granted', 'waiting') THEN 1 ELSE 0 END","is_gone":"CASE WHEN :verdict = 'gone' THEN 1 ELSE 0 END","catches_up":"CASE WHEN :mine = 0 AND :drawn < :wall_us - 1000000 THEN 1 ELSE 0 END"},"when":"occupied"},
    {"values":{"remaining_us":":deadline_us - :now_us","change_us":"least(:soonest_us, :deadline_us) - :now_us"},"when":"occupied"},
    {"sql":"UPDATE @resources SET last_ticket = :ticket WHERE name = :name","when":"catches_up"},
    {"sql":"INSERT INTO @claims (\n  name, ticket, id, weight, capacity, fixed, min_hold_us, came_us, seen_us, granted_us, deadline_us, has_left,\n  owner, note, bell\n)\nVALUES (\n  :name, :ticket, :id, :weight, :capacity, :fixed, :min_hold_us, :now_us, :now_us, :granted_us, :deadline_us, 0,\n  :owner, :note, :bell\n)","when":"enters"},
    {"sql":"UPDATE @claims\nSET\n  seen_us = :now_us,\n  granted_us = :granted_us,\n  deadline_us = greatest(deadline_us, :deadline_us),\n  owner = :owner,\n  note = :note,\n  bell = :bell\nWHERE name = :name AND ticket = :ticket","when":"stays"},
    { ...shared["why"], when: "is_gone" },
    shared["notify-if-removed"],
    { ...shared["tell-sticky-holder"], when: "occupied" },
  ],
  columns: {"verdict":"text","ticket":"bigint","remaining_us":"bigint","change_us":"bigint","live_capacity":"integer","waiters":"integer","reason":"text","by_whom":"text","enters":"integer"},
};

export const names: Routine = {
  name: "names",
  inputs: {"first":"name","most":"integer"},
  locals: {},
  steps: [
  ],
  columns: {"name":"text"},
  query: "SELECT @utf8(encoded) AS name\nFROM (SELECT DISTINCT name AS encoded FROM @claims WHERE name >= :first ORDER BY name LIMIT :most) AS page\nORDER BY encoded",
};

export const poll: Routine = {
  name: "poll",
  inputs: {"list":"text"},
  locals: {"now_us":"bigint","wall_us":"bigint"},
  onlyOnPrimary: true,
  steps: [
    shared["clock"],
  ],
  columns: {"kind":"text","name":"text","ticket":"text","ahead":"bigint","id":"text","reason":"text","by_whom":"text"},
  query: "SELECT\n  'line' AS kind,\n  @utf8(asked.name) AS name,\n  @text(asked.ticket) AS ticket,\n  CASE\n    WHEN coalesce(sum(CASE WHEN other.ticket < own.ticket THEN other.weight END), 0) + max(own.weight)\n      <= max(own.capacity) THEN 0\n    WHEN max(own.ticket) IS NULL THEN 0\n    ELSE 1 + sum(CASE WHEN other.ticket < own.ticket THEN 1 ELSE 0 END)\n  END AS ahead,\n  '' AS id,\n  '' AS reason,\n  '' AS by_whom\nFROM @asked(name, ticket)\nLEFT JOIN @claims AS own ON own.name = asked.name AND own.ticket = asked.ticket AND own.deadline_us > :now_us\nLEFT JOIN @claims AS other ON other.name = asked.name AND other.ticket < asked.ticket AND other.deadline_us > :now_us\nGROUP BY asked.name, asked.ticket\nUNION ALL\nSELECT 'forced', @utf8(name), @text(ticket), 0, id, reason, by_whom\nFROM @forced\nWHERE until_us > :now_us",
};

export const readCell: Routine = {
  name: "read_cell",
  inputs: {"name":"name"},
  locals: {"now_us":"bigint","wall_us":"bigint"},
  steps: [
    shared["clock"],
  ],
  columns: {"version":"text","body":"text"},
  query: "SELECT @text(version) AS version, body\nFROM @cells AS cell\nWHERE name = :name AND until_us > :wall_us",
};

export const records: Routine = {
  name: "records",
  inputs: {"name":"name","most":"integer"},
  locals: {"now_us":"bigint","wall_us":"bigint"},
  steps: [
    shared["clock"],
  ],
  columns: {"id":"text","ticket":"text","weight":"integer","capacity":"integer","age_us":"text","remaining_us":"text","owner":"text","note":"text"},
  query: "SELECT\n  id,\n  @text(ticket) AS ticket,\n  weight,\n  capacity,\n  @text(:now_us - coalesce(granted_us, came_us)) AS age_us,\n  @text(deadline_us - :now_us) AS remaining_us,\n  owner,\n  note\nFROM @claims AS claim\nWHERE name = :name AND deadline_us > :now_us\nORDER BY claim.ticket\nLIMIT :most",
};

export const release: Routine = {
  name: "leave",
  inputs: {"name":"name","id":"id","ordinary":"integer","ending":"integer","reason":"text","by_whom":"text","floor":"bigint"},
  locals: {"locked":"integer","now_us":"bigint","wall_us":"bigint","was_there":"integer","seized":"bigint","ticket":"bigint","victim_bell":"text","removes":"integer","stays":"integer","forced":"integer"},
  onlyOnce: true,
  steps: [
    shared["lock"],
    { ...shared["draw"], unless: "locked" },
    shared["clock"],
    {"sql":"DELETE FROM @claims\nWHERE\n  name = :name\n  AND ticket = (\n    SELECT ticket\n    FROM (SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1) AS mine\n  )\n  AND has_left = 0\n  AND deadline_us > :now_us\n  AND coalesce(granted_us + min_hold_us, 0) <= :now_us","counts":"was_there","when":"ordinary"},
    {"select":"SELECT coalesce((SELECT ticket FROM @claims WHERE name = :name AND id = :id ORDER BY ticket LIMIT 1 FOR UPDATE), 0) AS seized\n","from":"FROM (SELECT 1 AS one) AS here","into":["seized"],"locks":true,"unless":"was_there"},
    {"select":"SELECT\n  ticket,\n  victim_bell,\n  was_there,\n  CASE WHEN was_there = 1 AND is_early = 0 THEN 1 ELSE 0 END AS removes,\n  CASE WHEN was_there = 1 AND is_early = 1 THEN 1 ELSE 0 END AS stays,\n  CASE WHEN was_there = 1 AND :ending = 2 THEN 1 ELSE 0 END AS forced\n","from":"FROM (\n  SELECT\n    coalesce(max(ticket), 0) AS ticket,\n    coalesce(max(bell), '') AS victim_bell,\n    CASE WHEN count(*) = 0 OR (max(has_left) = 1 AND :ending = 0) THEN 0 ELSE 1 END AS was_there,\n    CASE WHEN :ending = 0 AND max(granted_us + min_hold_us) > :now_us THEN 1 ELSE 0 END AS is_early\n  FROM @claims\n  WHERE name = :name AND id = :id AND deadline_us > :now_us\n) AS claim","into":["ticket","victim_bell","was_there","removes","stays","forced"],"unless":"was_there"},
    {"sql":"DELETE FROM @claims WHERE name = :name AND ticket = :ticket","when":"removes"},
    {"sql":"UPDATE @claims SET has_left = 1, deadline_us = granted_us + min_hold_us WHERE name = :name AND ticket = :ticket","when":"stays"},
    {"sql":"DELETE FROM @forced WHERE id > '' AND until_us <= :now_us","when":"forced"},
    {"sql":"INSERT INTO @forced (id, name, ticket, reason, by_whom, until_us)\nVALUES (:id, :name, :ticket, :reason, :by_whom, :now_us + 60000000)\nON CONFLICT (id) DO UPDATE SET\n  ticket = excluded.ticket,\n  reason = excluded.reason,\n  by_whom = excluded.by_whom,\n  until_us = excluded.until_us","when":"forced"},
    shared["notify-released"],
  ],
  columns: {"was_there":"integer"},
};

export const renew: Routine = {
  name: "renew",
  inputs: {"list":"text"},
  locals: {"name":"name","id":"id","ticket":"bigint","ttl_us":"bigint","is_alone":"integer","is_first":"integer","verdict":"text","remaining_us":"bigint","change_us":"bigint","is_gone":"integer","wanted":"integer","first_waiting":"bigint","soonest_us":"bigint","number":"integer","reason":"text","by_whom":"text","now_us":"bigint","wall_us":"bigint"},
  before: [
    shared["clock"],
  ],
  each: {"name":"name","id":"id","ticket":"bigint","ttl_us":"bigint","is_alone":"integer","is_first":"integer"},
  steps: [
    {"sql":"UPDATE @claims\nSET\n  seen_us = :now_us,\n  deadline_us = CASE\n    WHEN fixed = 1 AND granted_us IS NOT NULL THEN deadline_us\n    ELSE greatest(deadline_us, :now_us + :ttl_us)\n  END\nWHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us"},
    {"select":"SELECT\n  CASE\n    WHEN max(own.deadline_us) IS NULL THEN 'gone'\n    WHEN sum(CASE WHEN other.ticket <= own.ticket THEN other.weight ELSE 0 END) <= max(own.capacity) THEN 'held'\n    ELSE 'waiting'\n  END AS verdict,\n  coalesce(max(own.deadline_us), 0) - :now_us AS remaining_us,\n  coalesce(min(other.deadline_us), 0) - :now_us AS change_us,\n  CASE WHEN max(own.deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone,\n  CASE\n    WHEN count(*) > 1\n      THEN max(CASE WHEN other.ticket = own.ticket AND own.owner LIKE '%\"sticky\"_true%' THEN 1 ELSE 0 END)\n    ELSE 0\n  END AS wanted\n","from":"FROM @claims AS own\nINNER JOIN @claims AS other ON other.name = :name AND other.deadline_us > :now_us\nWHERE\n  own.name = :name\n  AND own.ticket = :ticket\n  AND own.id = :id\n  AND own.has_left = 0\n  AND own.deadline_us > :now_us","into":["verdict","remaining_us","change_us","is_gone","wanted"],"when":"is_alone"},
    {"select":"SELECT\n  coalesce(min(CASE WHEN total > capacity THEN ticket END), 9007199254740991) AS first_waiting,\n  coalesce(min(deadline_us), 0) AS soonest_us,\n  count(*) AS number\n","from":"FROM (\n  SELECT ticket, capacity, deadline_us, sum(weight) OVER (ORDER BY ticket ROWS UNBOUNDED PRECEDING) AS total\n  FROM @claims\n  WHERE name = :name AND deadline_us > :now_us\n) AS line","into":["first_waiting","soonest_us","number"],"when":"is_first"},
    {"select":"SELECT\n  CASE\n    WHEN max(deadline_us) IS NULL THEN 'gone'\n    WHEN max(ticket) < :first_waiting THEN 'held'\n    ELSE 'waiting'\n  END AS verdict,\n  coalesce(max(deadline_us), 0) - :now_us AS remaining_us,\n  :soonest_us - :now_us AS change_us,\n  CASE WHEN max(deadline_us) IS NULL THEN 1 ELSE 0 END AS is_gone,\n  CASE WHEN :number > 1 THEN coalesce(max(CASE WHEN owner LIKE '%\"sticky\"_true%' THEN 1 ELSE 0 END), 0) ELSE 0 END AS wanted\n","from":"FROM @claims\nWHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us","into":["verdict","remaining_us","change_us","is_gone","wanted"],"unless":"is_alone"},
    { ...shared["why"], when: "is_gone" },
  ],
  columns: {"verdict":"text","remaining_us":"bigint","change_us":"bigint","wanted":"integer","reason":"text","by_whom":"text"},
};

export const sweep: Routine = {
  name: "sweep",
  inputs: {"after":"name","most":"integer","retention_us":"bigint"},
  locals: {"now_us":"bigint","wall_us":"bigint","last":"name","number":"integer","forgotten":"integer","abandoned":"text"},
  steps: [
    shared["clock"],
    {"select":"SELECT coalesce(max(name), '') AS last, count(*) AS number\n","from":"FROM (SELECT name FROM @resources WHERE name > :after ORDER BY name LIMIT :most) AS next","into":["last","number"]},
    {"sql":"DELETE FROM @cells WHERE name > :after AND name <= :last AND until_us <= :wall_us"},
    {"sql":"DELETE FROM @resources\nWHERE\n  name > :after\n  AND name <= :last\n  AND last_ticket <= :wall_us - :retention_us\n  AND NOT EXISTS (SELECT 1 FROM @claims AS claim WHERE claim.name = @resources.name)\n  AND NOT EXISTS (SELECT 1 FROM @cells AS cell WHERE cell.name = @resources.name)","counts":"forgotten"},
    {"select":"SELECT coalesce(@jsonlist(name), '[]') AS abandoned\n","from":"FROM (\n  SELECT DISTINCT name FROM @claims\n  WHERE name > :after AND name <= :last AND deadline_us <= :now_us\n  ORDER BY name\n  LIMIT 200\n) AS expired","into":["abandoned"]},
  ],
  columns: {"last":"name","number":"integer","forgotten":"integer","abandoned":"text"},
};

export const tidy: Routine = {
  name: "tidy",
  inputs: {"list":"text"},
  locals: {"name":"name","locked":"integer","removed":"integer","now_us":"bigint","wall_us":"bigint"},
  before: [
    shared["clock"],
  ],
  each: {"name":"name"},
  steps: [
    shared["lock"],
    shared["drop-expired"],
    shared["notify"],
  ],
  columns: {"removed":"integer"},
};

export const writeCell: Routine = {
  name: "write_cell",
  inputs: {"name":"name","expected":"bigint","deletes":"integer","body":"text","keep_us":"bigint","floor":"bigint"},
  locals: {"advanced":"integer","now_us":"bigint","wall_us":"bigint","drawn":"bigint","found":"bigint","written":"integer","stores":"integer","drops":"integer"},
  onlyOnce: true,
  steps: [
    shared["advance"],
    { ...shared["draw"], unless: "advanced" },
    shared["clock"],
    {"select":"SELECT resource.last_ticket AS drawn, coalesce(cell.version, 0) AS found\n","from":"FROM @resources AS resource\nLEFT JOIN @cells AS cell ON cell.name = resource.name AND cell.until_us > :wall_us\nWHERE resource.name = :name","into":["drawn","found"]},
    {"values":{"written":"CASE WHEN :expected = -1 OR :expected = :found THEN 1 ELSE 0 END","stores":"CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 0 THEN 1 ELSE 0 END","drops":"CASE WHEN (:expected = -1 OR :expected = :found) AND :deletes = 1 THEN 1 ELSE 0 END"}},
    {"sql":"INSERT INTO @cells (name, version, body, until_us)\nVALUES (:name, :drawn, :body, CASE WHEN :keep_us = 0 THEN 9007199254740991 ELSE :wall_us + :keep_us END)\nON CONFLICT (name) DO UPDATE SET\n  version = excluded.version,\n  body = excluded.body,\n  until_us = excluded.until_us","when":"stores"},
    {"sql":"DELETE FROM @cells WHERE name = :name","when":"drops"},
  ],
  columns: {"written":"integer","drawn":"bigint"},
};
