// Stochastic gradient descent with momentum in double precision, in PyTorch's form (torch.optim.SGD; Sutskever et al.,
// "On the importance of initialization and momentum in deep learning", ICML 2013, for Nesterov's variant), with the
// conventions of task.json.
#include "tasks/oracle.h"

#include <cmath>

namespace stepbench {

namespace {
enum Field { kStep, kLr, kMomentum, kDampening, kWeightDecay, kNesterov, kIsFirstStep, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kMomentumBuffer };
}  // namespace

ORACLE_EACH_LEVEL
void oracle_sgd_momentum(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last) {
  const double lr = hyper[kLr], momentum = hyper[kMomentum], dampening = hyper[kDampening];
  const double weight_decay = hyper[kWeightDecay];
  const double inverse_grad_scale = 1 / hyper[kGradScale];  // to multiply by: an oracle takes its time for divisions
  const bool nesterov = hyper[kNesterov] != 0, is_first_step = hyper[kIsFirstStep] != 0;
  const bool skipped = hyper[kFoundInf] != 0;

  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const momentum_buffer = tensor.buffers[kMomentumBuffer];
  double* const param_scale = tensor.scale[kParam];
  double* const buffer_scale = tensor.scale[kMomentumBuffer];

  ORACLE_ELEMENTS
  for (int64_t i = first; i < last; ++i) {
    double p = param[i], b = momentum_buffer[i];
    double p_scale = 0, b_scale = 0;  // a skipped step moves nothing
    if (!skipped) {
      const double g = grad[i] * inverse_grad_scale + weight_decay * p;
      const double g_scale = std::fabs(grad[i] * inverse_grad_scale) + weight_decay * std::fabs(p);
      if (is_first_step) {
        b = g;  // whatever the buffer holds; dampening does not apply
        b_scale = g_scale;
      } else {
        b_scale = momentum * std::fabs(b) + (1 - dampening) * g_scale;
        b = momentum * b + (1 - dampening) * g;
      }
      p_scale = lr * (nesterov ? g_scale + momentum * b_scale : b_scale);
      p -= lr * (nesterov ? g + momentum * b : b);
    }
    param[i] = p;
    momentum_buffer[i] = b;
    if (param_scale != nullptr) param_scale[i] = p_scale;
    if (buffer_scale != nullptr) buffer_scale[i] = b_scale;
  }
}

}  // namespace stepbench
