/*
 * Intel's multi-buffer library: AES-128-CBC with HMAC through its burst interfaces,
 * for benches/benches/cbc.rs, which compiles this where the library's header is and
 * talks to it by pipe:
 *
 *   < burst sha1 64 4096                interface, hash, octets, packets
 *   > 4096 101234.0 232838              packets, nanoseconds, clocks of the TSC
 *
 * A round seals that many packets in 128 buffers in batches of 64, in place, the ICV
 * behind the text, ESP's header and the IV in front of it. The IVs are there already.
 * `burst` gives a batch of jobs with both algorithms, `two` all to the cipher's burst
 * and then all to the hash's.
 */
#include <intel-ipsec-mb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { BUFFERS = 128, BATCH = 64, STRIDE = 2048 + 64, FRONT = 256, IV = 16, HEADER = 8 };

static IMB_MGR *mgr;
static uint32_t enc[60] __attribute__((aligned(64))), dec[60] __attribute__((aligned(64)));
static uint8_t pads[2][2][64] __attribute__((aligned(64)));
static uint8_t *memory;
static IMB_JOB own[BATCH];

static void fill(IMB_JOB *job, unsigned i, uint64_t len, int sha256)
{
    uint8_t *text = memory + (size_t)(i % BUFFERS) * STRIDE + FRONT;
    job->src = text - IV - HEADER;
    job->dst = text;
    job->cipher_start_src_offset_in_bytes = HEADER + IV;
    job->msg_len_to_cipher_in_bytes = len;
    job->hash_start_src_offset_in_bytes = 0;
    job->msg_len_to_hash_in_bytes = HEADER + IV + len;
    job->iv = text - IV;
    job->iv_len_in_bytes = IV;
    job->enc_keys = enc;
    job->dec_keys = dec;
    job->key_len_in_bytes = 16;
    job->auth_tag_output = text + len;
    job->auth_tag_output_len_in_bytes = sha256 ? 16 : 12;
    job->u.HMAC._hashed_auth_key_xor_ipad = pads[sha256][0];
    job->u.HMAC._hashed_auth_key_xor_opad = pads[sha256][1];
    job->cipher_mode = IMB_CIPHER_CBC;
    job->cipher_direction = IMB_DIR_ENCRYPT;
    job->chain_order = IMB_ORDER_CIPHER_HASH;
    job->hash_alg = sha256 ? IMB_AUTH_HMAC_SHA_256 : IMB_AUTH_HMAC_SHA_1;
}

static unsigned burst(unsigned first, uint64_t len, int sha256)
{
    IMB_JOB *jobs[BATCH];
    unsigned done = 0;
    if (IMB_GET_NEXT_BURST(mgr, BATCH, jobs) != BATCH)
        return 0;
    for (unsigned i = 0; i < BATCH; i++)
        fill(jobs[i], first + i, len, sha256);
    done = IMB_SUBMIT_BURST(mgr, BATCH, jobs);
    while (done < BATCH) {
        unsigned more = IMB_FLUSH_BURST(mgr, BATCH - done, jobs);
        if (more == 0)
            break;
        done += more;
    }
    return done;
}

static unsigned two(unsigned first, uint64_t len, int sha256)
{
    for (unsigned i = 0; i < BATCH; i++)
        fill(&own[i], first + i, len, sha256);
    if (IMB_SUBMIT_CIPHER_BURST(mgr, own, BATCH, IMB_CIPHER_CBC, IMB_DIR_ENCRYPT,
                                IMB_KEY_128_BYTES) != BATCH)
        return 0;
    return IMB_SUBMIT_HASH_BURST(mgr, own, BATCH,
                                 sha256 ? IMB_AUTH_HMAC_SHA_256 : IMB_AUTH_HMAC_SHA_1);
}

int main(void)
{
    uint8_t key[16], block[64];
    char interface[16], hash[16];
    unsigned long len, packets;

    mgr = alloc_mb_mgr(0);
    if (mgr == NULL || posix_memalign((void **)&memory, 64, (size_t)BUFFERS * STRIDE) != 0)
        return 1;
    memset(memory, 0, (size_t)BUFFERS * STRIDE);
    init_mb_mgr_auto(mgr, NULL);
    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    IMB_AES_KEYEXP_128(mgr, key, enc, dec);
    for (int outer = 0; outer < 2; outer++) {
        memset(block, outer ? 0x5c : 0x36, sizeof block);
        IMB_SHA1_ONE_BLOCK(mgr, block, pads[0][outer]);
        IMB_SHA256_ONE_BLOCK(mgr, block, pads[1][outer]);
    }
    printf("%s\n", imb_get_version_str());
    fflush(stdout);

    while (scanf("%15s %15s %lu %lu", interface, hash, &len, &packets) == 4) {
        int bursts = strcmp(interface, "burst") == 0, sha256 = strcmp(hash, "sha256") == 0;
        unsigned long done = 0;
        struct timespec from, to;
        if (len % 16 != 0 || len + FRONT + 16 > STRIDE)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &from);
        uint64_t begin = __rdtsc();
        for (; done < packets; done += BATCH)
            if ((bursts ? burst : two)((unsigned)done, len, sha256) != BATCH)
                return 1;
        uint64_t clocks = __rdtsc() - begin;
        clock_gettime(CLOCK_MONOTONIC, &to);
        double nanos = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
        printf("%lu %.1f %llu\n", done, nanos, (unsigned long long)clocks);
        fflush(stdout);
    }
    return 0;
}
