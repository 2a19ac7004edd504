/* The part of librdkafka's public, ABI-stable interface that rdbench.c calls.
 * Declared here because the Python wheel that carries the newest librdkafka ships no header. */
#ifndef RUNNEL_RDKAFKA_SUBSET_H
#define RUNNEL_RDKAFKA_SUBSET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;

typedef struct rd_kafka_message_s {
        int err;
        rd_kafka_topic_t *rkt;
        int32_t partition;
        void *payload;
        size_t len;
        void *key;
        size_t key_len;
        int64_t offset;
        void *_private;
} rd_kafka_message_t;

struct rd_kafka_metadata;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_CONF_OK = 0 };
enum { RD_KAFKA_MSG_F_COPY = 2 };
enum { RD_KAFKA_ERR_QUEUE_FULL = -184, RD_KAFKA_ERR_PARTITION_EOF = -191 };
#define RD_KAFKA_PARTITION_UA ((int32_t)-1)
#define RD_KAFKA_OFFSET_BEGINNING ((int64_t)-2)

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *name, const char *value, char *error, size_t size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *,
                                 void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *opaque));
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *, char *error, size_t size);
void rd_kafka_destroy(rd_kafka_t *);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *topic, void *configuration);
void rd_kafka_topic_destroy(rd_kafka_topic_t *);
int rd_kafka_metadata(rd_kafka_t *, int all_topics, rd_kafka_topic_t *, const struct rd_kafka_metadata **,
                      int timeout_ms);
void rd_kafka_metadata_destroy(const struct rd_kafka_metadata *);
int rd_kafka_query_watermark_offsets(rd_kafka_t *, const char *topic, int32_t partition, int64_t *low,
                                     int64_t *high, int timeout_ms);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t partition, int flags, void *payload, size_t size,
                     const void *key, size_t key_size, void *opaque);
int rd_kafka_poll(rd_kafka_t *, int timeout_ms);
int rd_kafka_flush(rd_kafka_t *, int timeout_ms);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int error);
const char *rd_kafka_version_str(void);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
void rd_kafka_queue_destroy(rd_kafka_queue_t *);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t partition, int64_t offset, rd_kafka_queue_t *);
int rd_kafka_consume_stop(rd_kafka_topic_t *, int32_t partition);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int timeout_ms, rd_kafka_message_t **messages,
                                     size_t size);
void rd_kafka_message_destroy(rd_kafka_message_t *);

#endif
