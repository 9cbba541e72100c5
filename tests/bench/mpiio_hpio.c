/* The HPIO access patterns through the MPI-IO of this site: what the collective engine is measured against.
 *
 *   mpirun -n 4 mpiio_hpio FILE PATTERN REGION_BYTES REGION_COUNT SPACE_BYTES REPETITIONS [KEY=VALUE ...]
 *
 * PATTERN is memory-file: c-c, nc-c, c-nc or nc-nc, as HPIO defines them (Ching et al., IPDPS 2006): memory nc is COUNT
 * regions of REGION bytes, REGION + SPACE apart; file nc gives the ranks' regions round robin, REGION + SPACE apart;
 * c is one run. Each repetition opens a new file of the full length, and times MPI_File_write_all between two
 * barriers, then MPI_File_read_all; a repetition counts with its slowest rank. Every byte is compared, holes included.
 * KEY=VALUE are MPI hints. One line a repetition and operation:
 *
 *   operation pattern ranks region_bytes region_count region_space_bytes bytes seconds
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void check(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, call, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The byte that belongs at an offset of the file; never 0, which is what a hole reads as. */
static unsigned char value(long long offset)
{
    unsigned long long mixed = (unsigned long long)offset * 0x9E3779B97F4A7C15ull;
    return (unsigned char)((mixed >> 57) + 1);
}

struct pattern {
    int memory_gaps, file_gaps;
    long long region, count, space;
};

static long long file_offset(const struct pattern *p, int owner, long long region)
{
    if (p->file_gaps)
        return (p->region + p->space) * (region * ranks + owner);
    return p->region * (p->count * owner + region);
}

static long long file_bytes(const struct pattern *p)
{
    if (p->file_gaps)
        return (p->region + p->space) * p->count * ranks - p->space;
    return p->region * p->count * ranks;
}

static long long memory_stride(const struct pattern *p)
{
    return p->memory_gaps ? p->region + p->space : p->region;
}

static MPI_Datatype blocks(const struct pattern *p, long long stride)
{
    MPI_Datatype region, type;
    MPI_Type_contiguous((int)p->region, MPI_BYTE, &region);
    MPI_Type_create_hvector((int)p->count, 1, stride, region, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&region);
    return type;
}

/* The whole file, holes included, against what must be in it. */
static long long differences(const struct pattern *p, const char *path)
{
    long long bytes = file_bytes(p), wrong = 0, at = 0, pitch = p->region + p->space;
    unsigned char *found = malloc((size_t)bytes + 1);
    FILE *file = fopen(path, "rb");
    if (!file || fread(found, 1, (size_t)bytes + 1, file) != (size_t)bytes)
        return -1;
    fclose(file);
    for (; at < bytes; at++) {
        int hole = p->file_gaps && at % pitch >= p->region;
        wrong += found[at] != (hole ? 0 : value(at));
    }
    free(found);
    return wrong;
}

static double slowest(double seconds)
{
    double all;
    MPI_Reduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7) {
        if (rank == 0)
            fprintf(stderr, "usage: mpiio_hpio FILE PATTERN REGION_BYTES REGION_COUNT SPACE_BYTES REPETITIONS [KEY=VALUE ...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *path = argv[1], *name = argv[2];
    struct pattern p = {strncmp(name, "nc-", 3) == 0, strcmp(strchr(name, '-') + 1, "nc") == 0,
                        atoll(argv[3]), atoll(argv[4]), atoll(argv[5])};
    int repetitions = atoi(argv[6]);
    MPI_Info info;
    MPI_Info_create(&info);
    for (int at = 7; at < argc; at++) {
        char *equals = strchr(argv[at], '=');
        if (equals) {
            *equals = 0;
            MPI_Info_set(info, argv[at], equals + 1);
        }
    }

    long long stride = memory_stride(&p), memory_bytes = stride * p.count, at, region;
    unsigned char *data = malloc((size_t)memory_bytes), *back = malloc((size_t)memory_bytes);
    memset(data, 0, (size_t)memory_bytes);
    for (region = 0; region < p.count; region++)
        for (at = 0; at < p.region; at++)
            data[region * stride + at] = value(file_offset(&p, rank, region) + at);

    MPI_Datatype memory_type = p.memory_gaps ? blocks(&p, stride) : MPI_BYTE;
    int memory_count = p.memory_gaps ? 1 : (int)(p.region * p.count);
    MPI_Datatype file_type = p.file_gaps ? blocks(&p, (p.region + p.space) * ranks) : MPI_BYTE;
    MPI_Offset displacement = file_offset(&p, rank, 0);

    for (int repetition = 0; repetition < repetitions; repetition++) {
        MPI_File file;
        double begin, write_seconds, read_seconds;
        if (rank == 0)
            remove(path);
        MPI_Barrier(MPI_COMM_WORLD);
        check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), "MPI_File_open");
        check(MPI_File_set_size(file, file_bytes(&p)), "MPI_File_set_size");
        check(MPI_File_set_view(file, displacement, MPI_BYTE, file_type, "native", info), "MPI_File_set_view");
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        check(MPI_File_write_all(file, data, memory_count, memory_type, MPI_STATUS_IGNORE), "MPI_File_write_all");
        write_seconds = slowest(MPI_Wtime() - begin);
        check(MPI_File_close(&file), "MPI_File_close");
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            long long wrong = differences(&p, path);
            if (wrong != 0) {
                fprintf(stderr, "%lld bytes of the file are wrong\n", wrong);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);

        memset(back, 0, (size_t)memory_bytes);
        check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file), "MPI_File_open");
        check(MPI_File_set_view(file, displacement, MPI_BYTE, file_type, "native", info), "MPI_File_set_view");
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        check(MPI_File_read_all(file, back, memory_count, memory_type, MPI_STATUS_IGNORE), "MPI_File_read_all");
        read_seconds = slowest(MPI_Wtime() - begin);
        check(MPI_File_close(&file), "MPI_File_close");
        if (memcmp(data, back, (size_t)memory_bytes) != 0) {
            fprintf(stderr, "rank %d read other bytes than it wrote\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0) {
            long long bytes = p.region * p.count * ranks;
            printf("write %s %d %lld %lld %lld %lld %.6f\n", name, ranks, p.region, p.count, p.space, bytes, write_seconds);
            printf("read %s %d %lld %lld %lld %lld %.6f\n", name, ranks, p.region, p.count, p.space, bytes, read_seconds);
            fflush(stdout);
        }
    }
    if (rank == 0)
        remove(path);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
