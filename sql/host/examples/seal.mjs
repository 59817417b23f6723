// Seals one registration and one delivery for outboxd and prints both rows as JSON.
// Needs Node.js alone. Usage: node seal.mjs KEY_FILE (a file of 64 hex digits). Writes to no database.

import { createCipheriv, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

// Ciphertext with its tag, and the nonce. A nonce must never be used twice under a key.
function seal(key, boundTo, plaintext) {
  // JSON.stringify escapes exactly what the associated data must have escaped (but lone surrogates, which no row holds).
  const aad = Buffer.from(JSON.stringify(boundTo));
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(aad);
  const sealed = Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
  return [sealed, nonce];
}

const bytea = (bytes) => "\\x" + bytes.toString("hex");

function registration(key, task, what) {
  const boundTo = ["task-webhook-registration-v1", task.account_id, task.task_id, task.task_type];
  const [sealed, nonce] = seal(key, boundTo, Buffer.from(JSON.stringify(what)));
  return { ...task, webhook_registration: bytea(sealed), webhook_registration_nonce: bytea(nonce) };
}

const COLUMNS = ["account_id", "task_id", "task_type", "terminal_status", "url", "operation_id", "idempotency_key"];

function delivery(key, row, body) {
  const boundTo = COLUMNS.map((column) => row[column]);
  // An eighth field, only where the column is not null.
  if (row.signing_scope_id != null) boundTo.push(row.signing_scope_id);
  const [sealed, nonce] = seal(key, boundTo, body);
  return { ...row, encrypted_body: bytea(sealed), envelope_nonce: bytea(nonce) };
}

const key = Buffer.from(readFileSync(process.argv[2], "utf8").trim(), "hex");
// Awkward on purpose: everything that the associated data must escape, and much that it must not.
const task = {
  account_id: "acc \"quoted\" \\ / é 😀 \u0001\b\t\n\f\r\u001f \u007f\u2028",
  task_id: "task_0123456789abcdef",
  task_type: "create_media_buy",
};
const where = { url: "https://buyer.example.com/hooks?x=%C3%A9", operation_id: "op-1" };
const what = { ...where, token: "token-of-the-buyer", authentication: null, signing_scope_id: null };
console.log(JSON.stringify(registration(key, task, what)));

const ended = { terminal_status: "completed", idempotency_key: "whk_3f2b8c1e-9a44-4b0d-8f6e-5d7c9b1a2e30" };
const body = {
  idempotency_key: ended.idempotency_key,
  notification_id: task.task_id + ".terminal",
  operation_id: where.operation_id,
  task_id: task.task_id,
  task_type: task.task_type,
  protocol: "media-buy",
  status: ended.terminal_status,
  timestamp: "2026-01-02T03:04:05Z",
  result: { media_buy_id: "mb_1", name: "Zoë 😀" },
};
console.log(JSON.stringify(delivery(key, { ...task, ...where, ...ended }, Buffer.from(JSON.stringify(body)))));
