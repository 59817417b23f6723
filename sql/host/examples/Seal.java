// Seals one registration and one delivery for outboxd and prints both rows as JSON.
// Needs the JDK alone. Usage: java Seal.java KEY_FILE (a file of 64 hex digits). Writes to no database.

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

public class Seal {
    static final List<String> COLUMNS = List.of(
            "account_id", "task_id", "task_type", "terminal_status", "url", "operation_id", "idempotency_key");

    /** Ciphertext with its tag, and the nonce. A nonce must never be used twice under a key. */
    record Sealed(byte[] ciphertext, byte[] nonce) {}

    static Sealed seal(byte[] key, List<String> boundTo, String plaintext) throws Exception {
        String aad = boundTo.stream().map(Seal::quote).collect(Collectors.joining(",", "[", "]"));
        byte[] nonce = new byte[12];
        new SecureRandom().nextBytes(nonce);
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, nonce));
        cipher.updateAAD(aad.getBytes(StandardCharsets.UTF_8));
        return new Sealed(cipher.doFinal(plaintext.getBytes(StandardCharsets.UTF_8)), nonce);
    }

    /** A JSON string, spelt as the associated data needs it: quotes, backslashes and C0 controls, nothing else. */
    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            switch (c) {
                case '"' -> quoted.append("\\\"");
                case '\\' -> quoted.append("\\\\");
                case '\b' -> quoted.append("\\b");
                case '\t' -> quoted.append("\\t");
                case '\n' -> quoted.append("\\n");
                case '\f' -> quoted.append("\\f");
                case '\r' -> quoted.append("\\r");
                default -> quoted.append(c < 0x20 ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            }
        }
        return quoted.append('"').toString();
    }

    /** A JSON object of strings, objects and nulls, in the order of the map. */
    static String json(Map<?, ?> object) {
        return object.entrySet().stream()
                .map(e -> quote(e.getKey().toString()) + ":" + (e.getValue() == null ? "null"
                        : e.getValue() instanceof Map<?, ?> inner ? json(inner) : quote(e.getValue().toString())))
                .collect(Collectors.joining(",", "{", "}"));
    }

    static String bytea(byte[] bytes) {
        return "\\x" + HexFormat.of().formatHex(bytes);
    }

    static Map<String, Object> object(Object... members) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < members.length; i += 2) object.put((String) members[i], members[i + 1]);
        return object;
    }

    static Map<String, Object> registration(byte[] key, Map<String, Object> task, Map<String, Object> what)
            throws Exception {
        List<String> boundTo = List.of("task-webhook-registration-v1", (String) task.get("account_id"),
                (String) task.get("task_id"), (String) task.get("task_type"));
        Sealed sealed = seal(key, boundTo, json(what));
        Map<String, Object> row = new LinkedHashMap<>(task);
        row.put("webhook_registration", bytea(sealed.ciphertext()));
        row.put("webhook_registration_nonce", bytea(sealed.nonce()));
        return row;
    }

    static Map<String, Object> delivery(byte[] key, Map<String, Object> columns, String body) throws Exception {
        List<String> boundTo = new ArrayList<>();
        for (String column : COLUMNS) boundTo.add((String) columns.get(column));
        // An eighth field, only where the column is not null.
        if (columns.get("signing_scope_id") != null) boundTo.add((String) columns.get("signing_scope_id"));
        Sealed sealed = seal(key, boundTo, body);
        Map<String, Object> row = new LinkedHashMap<>(columns);
        row.put("encrypted_body", bytea(sealed.ciphertext()));
        row.put("envelope_nonce", bytea(sealed.nonce()));
        return row;
    }

    public static void main(String[] arguments) throws Exception {
        byte[] key = HexFormat.of().parseHex(Files.readString(Path.of(arguments[0])).strip());
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Awkward on purpose: everything that the associated data must escape, and much that it must not. In ASCII,
        // because before Java 18 source files are read in the encoding of the locale.
        Map<String, Object> task = object(
                "account_id", "acc \"quoted\" \\ / \u00e9 \ud83d\ude00 \1\b\t\n\f\r\37 \u007f\u2028",
                "task_id", "task_0123456789abcdef",
                "task_type", "create_media_buy");
        Map<String, Object> where = object("url", "https://buyer.example.com/hooks?x=%C3%A9", "operation_id", "op-1");
        Map<String, Object> what = new LinkedHashMap<>(where);
        what.putAll(object("token", "token-of-the-buyer", "authentication", null, "signing_scope_id", null));
        out.println(json(registration(key, task, what)));

        Map<String, Object> columns = new LinkedHashMap<>(task);
        columns.putAll(where);
        columns.put("terminal_status", "completed");
        columns.put("idempotency_key", "whk_3f2b8c1e-9a44-4b0d-8f6e-5d7c9b1a2e30");
        String body = json(object(
                "idempotency_key", columns.get("idempotency_key"),
                "notification_id", task.get("task_id") + ".terminal",
                "operation_id", where.get("operation_id"),
                "task_id", task.get("task_id"),
                "task_type", task.get("task_type"),
                "protocol", "media-buy",
                "status", columns.get("terminal_status"),
                "timestamp", "2026-01-02T03:04:05Z",
                "result", object("media_buy_id", "mb_1", "name", "Zo\u00eb \ud83d\ude00")));
        out.println(json(delivery(key, columns, body)));
    }
}
