-- What became of the demo's rows, by URL and state.
-- No parameters. Returns url, state, rows, and how many of them took more than one attempt.
-- Safe because it only reads.
SELECT url, state, count(*), count(*) FILTER (WHERE attempt_count > 1)
FROM :"outbox"
GROUP BY url, state
