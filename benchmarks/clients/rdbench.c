/* A load client on librdkafka: produce, consume, latency and single-record requests, one JSON line on stdout.
 *
 * Python's binding costs about a microsecond per message, which would measure the binding and not the broker.
 * Every record carries its sequence number and a payload derived from it, so a reader checks order and content.
 *
 * usage: rdbench produce|consume|latency|single|version key=value ...
 *   bootstrap topic partitions count size first rate seconds warmup_s window, and librdkafka's own
 *   settings as p.NAME=VALUE for the producer and c.NAME=VALUE for the consumer
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rdkafka_subset.h"

#define TEMPLATES 1024          /* distinct payloads, so that a codec cannot fold the whole run into one */
#define FETCHED_MAX 10000       /* messages taken from the queue in one call */
#define SILENCE_MS 15000        /* nothing arrives for this long: the run has failed */
#define TICK_NS 500000          /* records are released every half millisecond */
#define PARTITIONS_MAX 4096
#define STAMP_BYTES 16          /* sequence number and intended send time */

static const char *bootstrap = "127.0.0.1:9092", *topic_name = "bench";
static int partitions = 1;
static int64_t count = 1000, first = 0;
static size_t size = 100;
static double rate = 20000, seconds = 5, warmup_s = 1;
static int window = 1;
static char **client_settings;
static int client_settings_count;

static char *templates;
static int64_t delivered, failed;
static int last_failure;

static void die(const char *what, const char *why) {
        fprintf(stderr, "rdbench: %s: %s\n", what, why);
        exit(1);
}

static int64_t now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- payloads ---- */

static void make_templates(void) {
        uint64_t state = 88172645463325252ULL;
        templates = malloc(TEMPLATES * size);
        for (size_t i = 0; i < TEMPLATES * size; i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                templates[i] = (char)('A' + (state >> 11) % 26);
        }
}

static char *payload_of(int64_t sequence, int64_t stamp) {
        char *payload = templates + (size_t)(sequence % TEMPLATES) * size;
        memcpy(payload, &sequence, 8);
        memcpy(payload + 8, &stamp, 8);
        return payload;
}

static int payload_is_intact(const rd_kafka_message_t *message, int64_t sequence) {
        const char *expected = templates + (size_t)(sequence % TEMPLATES) * size;
        return message->len == size &&
               !memcmp((char *)message->payload + STAMP_BYTES, expected + STAMP_BYTES, size - STAMP_BYTES);
}

/* ---- librdkafka handles ---- */

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
        (void)rk;
        (void)opaque;
        delivered++;
        if (message->err) {
                failed++;
                last_failure = message->err;
        }
}

static rd_kafka_t *new_handle(int type) {
        char error[512];
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error) != RD_KAFKA_CONF_OK)
                die("bootstrap.servers", error);
        for (int i = 0; i < client_settings_count; i++) {
                if (client_settings[i][0] != (type == RD_KAFKA_PRODUCER ? 'p' : 'c'))
                        continue;
                char *setting = strdup(client_settings[i]), *name = setting + 2, *value = strchr(name, '=');
                if (!value)
                        die("setting without =", name);
                *value++ = 0;
                if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
                        die("setting", error);
                free(setting);
        }
        if (type == RD_KAFKA_PRODUCER)
                rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
        if (!rk)
                die("client", error);
        return rk;
}

static rd_kafka_topic_t *open_topic(rd_kafka_t *rk) {
        const struct rd_kafka_metadata *metadata;
        rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, topic_name, NULL);
        int error = rd_kafka_metadata(rk, 0, topic, &metadata, 10000);
        if (error)
                die("metadata", rd_kafka_err2str(error));
        rd_kafka_metadata_destroy(metadata);
        return topic;
}

static void send_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partition, int64_t sequence, int64_t stamp) {
        char *payload = payload_of(sequence, stamp);
        while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload, size, NULL, 0, NULL)) {
                int error = rd_kafka_last_error();
                if (error != RD_KAFKA_ERR_QUEUE_FULL)
                        die("produce", rd_kafka_err2str(error));
                rd_kafka_poll(rk, 100);
        }
}

/* Connecting, and half a second that an idempotent producer may wait for its id, are not throughput: the first
 * record goes out and is acknowledged before the clock starts. */
static void send_first(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partition) {
        send_one(rk, topic, partition, first, now_ns());
        rd_kafka_flush(rk, 30000);
        if (delivered != 1)
                die("produce", "the first record was not acknowledged within 30 s");
}

static void check_all_delivered(int64_t expected) {
        if (failed)
                die("delivery failed", rd_kafka_err2str(last_failure));
        if (delivered != expected)
                die("delivery", "not every record was acknowledged");
}

/* ---- produce: as fast as it goes, until every acknowledgement is here ---- */

static void run_produce(void) {
        rd_kafka_t *rk = new_handle(RD_KAFKA_PRODUCER);
        rd_kafka_topic_t *topic = open_topic(rk);
        int partition = partitions == 1 ? 0 : RD_KAFKA_PARTITION_UA;
        send_first(rk, topic, partition);
        int64_t started = now_ns();
        for (int64_t i = 1; i < count; i++) {
                send_one(rk, topic, partition, first + i, 0);
                if (!(i & 1023))
                        rd_kafka_poll(rk, 0);
        }
        rd_kafka_flush(rk, 60000);
        double elapsed_s = (now_ns() - started) / 1e9;
        check_all_delivered(count);
        printf("{\"records\": %" PRId64 ", \"seconds\": %.6f, \"records_per_s\": %.1f}\n", count, elapsed_s,
               (count - 1) / elapsed_s);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
}

/* ---- consume: everything in the topic, each record checked ---- */

static int64_t last_sequence[PARTITIONS_MAX], sequence_sum;

static void check_record(const rd_kafka_message_t *message) {
        int64_t sequence;
        if (message->err)
                die("consume", rd_kafka_err2str(message->err));
        memcpy(&sequence, message->payload, 8);
        if (sequence <= last_sequence[message->partition])
                die("consume", "a record came twice or out of order");
        if (!payload_is_intact(message, sequence))
                die("consume", "a record's content is not what was sent");
        last_sequence[message->partition] = sequence;
        sequence_sum += sequence;
}

static void run_consume(void) {
        rd_kafka_t *rk = new_handle(RD_KAFKA_CONSUMER);
        rd_kafka_topic_t *topic = open_topic(rk);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
        rd_kafka_message_t **messages = malloc(FETCHED_MAX * sizeof *messages);
        int64_t received = 0, started = now_ns();
        for (int p = 0; p < partitions; p++) {
                last_sequence[p] = -1;
                rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue);
        }
        while (received < count) {
                ssize_t got = rd_kafka_consume_batch_queue(queue, SILENCE_MS, messages, FETCHED_MAX);
                if (got <= 0)
                        die("consume", "records are missing: nothing more arrives");
                for (ssize_t i = 0; i < got; i++) {
                        check_record(messages[i]);
                        rd_kafka_message_destroy(messages[i]);
                }
                received += got;
        }
        double elapsed_s = (now_ns() - started) / 1e9;
        if (received != count || sequence_sum != count * (count - 1) / 2)
                die("consume", "the records received are not the records sent");
        printf("{\"records\": %" PRId64 ", \"seconds\": %.6f, \"records_per_s\": %.1f}\n", received, elapsed_s,
               received / elapsed_s);
        for (int p = 0; p < partitions; p++)
                rd_kafka_consume_stop(topic, p);
        rd_kafka_queue_destroy(queue);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
}

/* ---- percentiles ---- */

static int by_value(const void *a, const void *b) {
        int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
        return (left > right) - (left < right);
}

static void print_latencies(int64_t *latencies_ns, int64_t n, double elapsed_s, int64_t total) {
        qsort(latencies_ns, (size_t)n, sizeof *latencies_ns, by_value);
        printf("{\"records\": %" PRId64 ", \"seconds\": %.6f, \"records_per_s\": %.1f, \"p50_ms\": %.4f, "
               "\"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
               total, elapsed_s, total / elapsed_s, latencies_ns[n / 2] / 1e6, latencies_ns[n * 99 / 100] / 1e6,
               latencies_ns[n * 999 / 1000] / 1e6, latencies_ns[n - 1] / 1e6);
}

/* ---- latency: a paced producer thread and a consumer, end to end ---- */

static double paced_elapsed_s;

/* The stamp is the tick at which the record was due, not when it left: a stall delays every record behind it
 * and each of them counts (no coordinated omission). */
static void *paced_producer(void *unused) {
        rd_kafka_t *rk = new_handle(RD_KAFKA_PRODUCER);
        rd_kafka_topic_t *topic = open_topic(rk);
        send_first(rk, topic, 0);
        int64_t started = now_ns(), sent = 1;
        for (int64_t tick = 0; sent < count; tick++) {
                int64_t due_ns = started + tick * TICK_NS;
                struct timespec wake = {due_ns / 1000000000, due_ns % 1000000000};
                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
                for (int64_t due = (int64_t)((tick + 1) * rate * TICK_NS / 1e9); sent < due && sent < count; sent++)
                        send_one(rk, topic, 0, sent, due_ns);
                rd_kafka_poll(rk, 0);
        }
        paced_elapsed_s = (now_ns() - started) / 1e9;
        rd_kafka_flush(rk, 30000);
        check_all_delivered(count);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
        return unused;
}

static void run_latency(void) {
        count = (int64_t)(rate * (seconds + warmup_s));
        int64_t skipped = (int64_t)(rate * warmup_s), received = 0, low, high;
        int64_t *latencies_ns = malloc((size_t)count * sizeof *latencies_ns);
        rd_kafka_message_t **messages = malloc(FETCHED_MAX * sizeof *messages);
        rd_kafka_t *rk = new_handle(RD_KAFKA_CONSUMER);
        rd_kafka_topic_t *topic = open_topic(rk);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
        int error = rd_kafka_query_watermark_offsets(rk, topic_name, 0, &low, &high, 10000);
        if (error)
                die("watermarks", rd_kafka_err2str(error));
        rd_kafka_consume_start_queue(topic, 0, high, queue);
        pthread_t producer;
        pthread_create(&producer, NULL, paced_producer, NULL);
        while (received < count) {
                ssize_t got = rd_kafka_consume_batch_queue(queue, 1, messages, FETCHED_MAX);
                int64_t now = now_ns();
                for (ssize_t i = 0; i < got; i++) {
                        int64_t sequence, due_ns;
                        if (messages[i]->err)
                                die("consume", rd_kafka_err2str(messages[i]->err));
                        memcpy(&sequence, messages[i]->payload, 8);
                        memcpy(&due_ns, (char *)messages[i]->payload + 8, 8);
                        if (sequence != received)
                                die("latency", "a record is missing, doubled or out of order");
                        latencies_ns[received++] = now - due_ns;
                        rd_kafka_message_destroy(messages[i]);
                }
        }
        pthread_join(producer, NULL);
        print_latencies(latencies_ns + skipped, count - skipped, paced_elapsed_s, count);
        rd_kafka_consume_stop(topic, 0);
        rd_kafka_queue_destroy(queue);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
}

/* ---- single: one record per request, `window` of them on their way ---- */

static void run_single(void) {
        rd_kafka_t *rk = new_handle(RD_KAFKA_PRODUCER);
        rd_kafka_topic_t *topic = open_topic(rk);
        send_first(rk, topic, 0);
        delivered = 0;
        int64_t capacity = 4000000, sent = 0, started = now_ns(), ends = started + (int64_t)(seconds * 1e9);
        int64_t *latencies_ns = malloc((size_t)capacity * sizeof *latencies_ns);
        int64_t *sent_at = malloc((size_t)capacity * sizeof *sent_at);
        int64_t seen = 0, now = started;
        while (seen < sent || now < ends) {
                for (; now < ends && sent - delivered < window && sent < capacity; sent++) {
                        sent_at[sent] = now_ns();
                        send_one(rk, topic, 0, sent, 0);
                }
                rd_kafka_poll(rk, 100);
                now = now_ns();
                if (now > ends + (int64_t)SILENCE_MS * 1000000)
                        die("single", "requests were never answered");
                for (; seen < delivered; seen++)
                        latencies_ns[seen] = now - sent_at[seen];
        }
        double elapsed_s = (now_ns() - started) / 1e9;
        check_all_delivered(sent);
        print_latencies(latencies_ns, sent, elapsed_s, sent);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
}

/* ---- command line ---- */

static void set_option(char *argument) {
        char *value = strchr(argument, '=');
        if (!value)
                die("argument without =", argument);
        *value++ = 0;
        if (!strcmp(argument, "bootstrap"))
                bootstrap = value;
        else if (!strcmp(argument, "topic"))
                topic_name = value;
        else if (!strcmp(argument, "partitions"))
                partitions = atoi(value);
        else if (!strcmp(argument, "count"))
                count = atoll(value);
        else if (!strcmp(argument, "first"))
                first = atoll(value);
        else if (!strcmp(argument, "size"))
                size = (size_t)atoll(value);
        else if (!strcmp(argument, "rate"))
                rate = atof(value);
        else if (!strcmp(argument, "seconds"))
                seconds = atof(value);
        else if (!strcmp(argument, "warmup_s"))
                warmup_s = atof(value);
        else if (!strcmp(argument, "window"))
                window = atoi(value);
        else
                die("unknown argument", argument);
}

int main(int argc, char **argv) {
        if (argc < 2)
                die("usage", "rdbench produce|consume|latency|single|version key=value ...");
        client_settings = malloc((size_t)argc * sizeof *client_settings);
        for (int i = 2; i < argc; i++) {
                if (!strncmp(argv[i], "c.", 2) || !strncmp(argv[i], "p.", 2))
                        client_settings[client_settings_count++] = argv[i];
                else
                        set_option(argv[i]);
        }
        if (size < STAMP_BYTES || partitions > PARTITIONS_MAX)
                die("size or partitions", "out of range");
        make_templates();
        if (!strcmp(argv[1], "produce"))
                run_produce();
        else if (!strcmp(argv[1], "consume"))
                run_consume();
        else if (!strcmp(argv[1], "latency"))
                run_latency();
        else if (!strcmp(argv[1], "single"))
                run_single();
        else if (!strcmp(argv[1], "version"))
                printf("{\"librdkafka\": \"%s\"}\n", rd_kafka_version_str());
        else
                die("unknown mode", argv[1]);
        return 0;
}
