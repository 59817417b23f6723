// graphile-worker as the sender of webhooks: a task that signs a job's body as RFC 9421 has it and posts it over undici's
// kept-alive connections. It opens no envelope, checks no address and pins none.
//
//   node graphile.mjs '{"database": ..., "pem": ..., "kid": ..., "ca": ..., "concurrency": 64, "tuned": true}'
//   node graphile.mjs '{"database": ..., "migrate": true}'

import { createHash, createPrivateKey, randomBytes, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// The modules are installed elsewhere, and ours lie in the repository.
const { run, runMigrations, Logger } = createRequire(`${process.env.MODULES}/`)("graphile-worker");
const { Agent } = createRequire(`${process.env.MODULES}/`)("undici");

const order = JSON.parse(process.argv[2]);
const noLogger = new Logger(() => () => {});
const database = { connectionString: order.database, logger: noLogger };

// As its documentation advises where there is much to do: jobs are fetched ahead and completed together.
const TUNED = { localQueue: { size: 2 * order.concurrency }, completeJobBatchDelay: 5, failJobBatchDelay: 5 };

const COMPONENTS = '("@method" "@target-uri" "@authority" "content-type" "content-digest")';
const WINDOW_SECONDS = 300;

function signed(url, body, key, kid) {
  const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
  const created = Math.floor(Date.now() / 1000);
  const parameters =
    `${COMPONENTS};created=${created};expires=${created + WINDOW_SECONDS};nonce="${randomBytes(16).toString("base64url")}"` +
    `;keyid="${kid}";alg="ed25519";tag="adcp/webhook-signing/v1"`;
  const base =
    `"@method": POST\n"@target-uri": ${url.href}\n"@authority": ${url.host}\n"content-type": application/json\n` +
    `"content-digest": ${digest}\n"@signature-params": ${parameters}`;
  return {
    "content-type": "application/json",
    "content-digest": digest,
    "signature-input": `sig1=${parameters}`,
    signature: `sig1=:${sign(null, Buffer.from(base), key).toString("base64url")}:`,
  };
}

async function work() {
  const key = createPrivateKey(readFileSync(order.pem));
  const agent = new Agent({ connections: order.concurrency, connect: { ca: readFileSync(order.ca) } });
  const post = async (payload) => {
    const url = new URL(payload.url);
    const reply = await agent.request({
      origin: url.origin,
      path: url.pathname,
      method: "POST",
      headers: signed(url, payload.body, key, order.kid),
      body: payload.body,
    });
    await reply.body.dump();
    if (reply.statusCode >= 300) throw new Error(`status ${reply.statusCode}`);
  };
  const runner = await run({
    ...database,
    preset: { worker: { concurrentJobs: order.concurrency, ...(order.tuned ? TUNED : {}) } },
    taskList: { post },
  });
  await runner.promise;
  await agent.close();
}

await (order.migrate ? runMigrations(database) : work());
