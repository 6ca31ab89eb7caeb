/* The smallest library of custom operators that ONNX Runtime loads: one operator, `test.simcap:Same`, for floats.
 *
 * Written against the C interface's table of functions, to which versions only append; the places below are those of
 * version 1. The kernel copies its input, of at most four dimensions, to its output.
 */
#include <stdint.h>
#include <stddef.h>
#include <string.h>

typedef void *(*get_api)(uint32_t);
struct base { get_api api; const char *(*version)(void); };
enum { CREATE_DOMAIN = 26, DOMAIN_ADD = 27, ADD_DOMAIN = 28, TENSOR_DATA = 51, DIMENSIONS_COUNT = 61, DIMENSIONS = 62,
       ELEMENTS = 64, TYPE_AND_SHAPE = 65, INPUT = 90, OUTPUT = 91, RELEASE_SHAPE = 99 };

struct op {
  uint32_t version;
  void *(*create)(const struct op *, const void *, const void *);
  const char *(*name)(const struct op *);
  const char *(*provider)(const struct op *);
  int (*input_type)(const struct op *, size_t);
  size_t (*inputs)(const struct op *);
  int (*output_type)(const struct op *, size_t);
  size_t (*outputs)(const struct op *);
  void (*compute)(void *, void *);
  void (*destroy)(void *);
  int (*input_kind)(const struct op *, size_t);
  int (*output_kind)(const struct op *, size_t);
};

static void **table;
static void *create(const struct op *o, const void *api, const void *info) { (void)o; (void)info; return (void *)api; }
static const char *name(const struct op *o) { (void)o; return "Same"; }
static const char *provider(const struct op *o) { (void)o; return NULL; }
static int type(const struct op *o, size_t i) { (void)o; (void)i; return 1; }
static size_t one(const struct op *o) { (void)o; return 1; }
static int required(const struct op *o, size_t i) { (void)o; (void)i; return 0; }
static void destroy(void *kernel) { (void)kernel; }

static void compute(void *kernel, void *context) {
  void *in, *out, *shape;
  float *from, *to;
  size_t rank, count;
  int64_t sides[4];
  (void)kernel;
  ((void *(*)(void *, size_t, void **))table[INPUT])(context, 0, &in);
  ((void *(*)(void *, void **))table[TYPE_AND_SHAPE])(in, &shape);
  ((void *(*)(void *, size_t *))table[DIMENSIONS_COUNT])(shape, &rank);
  ((void *(*)(void *, int64_t *, size_t))table[DIMENSIONS])(shape, sides, rank);
  ((void *(*)(void *, size_t *))table[ELEMENTS])(shape, &count);
  ((void (*)(void *))table[RELEASE_SHAPE])(shape);
  ((void *(*)(void *, size_t, const int64_t *, size_t, void **))table[OUTPUT])(context, 0, sides, rank, &out);
  ((void *(*)(void *, void **))table[TENSOR_DATA])(in, (void **)&from);
  ((void *(*)(void *, void **))table[TENSOR_DATA])(out, (void **)&to);
  memcpy(to, from, count * sizeof(float));
}

static struct op same = {8, create, name, provider, type, one, type, one, compute, destroy, required, required};

void *RegisterCustomOps(void *options, const struct base *base) {
  void *domain, *status;
  table = (void **)base->api(8);
  status = ((void *(*)(const char *, void **))table[CREATE_DOMAIN])("test.simcap", &domain);
  if (status) return status;
  status = ((void *(*)(void *, struct op *))table[DOMAIN_ADD])(domain, &same);
  if (status) return status;
  return ((void *(*)(void *, void *))table[ADD_DOMAIN])(options, domain);
}
