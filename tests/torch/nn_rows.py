"""The layers that are compared with PyTorch: a constructor, and the shapes of its inputs.

Inputs are written `3,4 3,4`: one shape for each; `3<5` is a tensor of indices below a bound, `(3,4 3,4)` a tuple.
"""

ACTIVATIONS = """
ReLU() | 3,4 ; ReLU(inplace=True) | 3,4 ; ReLU6() | 3,4 ; ReLU6(True) | 3,4 ; Sigmoid() | 3,4 ; Tanh() | 3,4
LeakyReLU() | 3,4 ; LeakyReLU(0.2, inplace=True) | 3,4 ; ELU() | 3,4 ; ELU(0.5, True) | 3,4 ; CELU(0.7) | 3,4
SELU() | 3,4 ; SiLU() | 3,4 ; SiLU(inplace=True) | 3,4 ; Mish() | 3,4 ; GELU() | 3,4 ; GELU('tanh') | 3,4
Hardtanh() | 3,4 ; Hardtanh(-2, 2, inplace=True) | 3,4 ; Hardswish() | 3,4 ; Hardsigmoid() | 3,4 ; Softplus() | 3,4
Softplus(2, 3) | 3,4 ; Softsign() | 3,4 ; Tanhshrink() | 3,4 ; Hardshrink() | 3,4 ; Softshrink(0.3) | 3,4
LogSigmoid() | 3,4 ; Threshold(0.1, 20) | 3,4 ; Threshold(0.1, 20, True) | 3,4 ; PReLU() | 3,4 ; PReLU(4) | 3,4
GLU() | 3,4 ; GLU(0) | 4,3 ; Softmax(dim=1) | 3,4 ; LogSoftmax(-1) | 3,4 ; Softmin(1) | 3,4 ; Softmax2d() | 2,3,4,4
RReLU(0.1, 0.3).eval() | 3,4
"""
SIMPLE = """
Identity(54, unused=3) | 2,3 ; Linear(3, 5) | 2,3 ; Linear(3, 5, bias=False) | 3 ; Linear(3, 5) | 2,4,3
Linear(17, 33) | 4,17 ; Linear(3, 5, dtype=torch.float64) | 2,3d ; Bilinear(3, 4, 5) | 2,3 2,4
Bilinear(3, 4, 5, bias=False) | 2,6,3 2,6,4 ; Flatten() | 2,3,4 ; Flatten(0, 1) | 2,3,4 ; Unflatten(1, (2, 3)) | 4,6
Embedding(7, 3) | 4<7 ; Embedding(7, 3, padding_idx=2) | 4,5<7 ; Embedding(7, 3, padding_idx=-1) | 4,5<7
Embedding(7, 3, max_norm=1.0) | 6<7 ; Embedding(7, 3, scale_grad_by_freq=True) | 9<7 ; Embedding(40, 8) | 3,4<40
Embedding.from_pretrained(torch.arange(6.).view(3, 2)) | 4<3 ; EmbeddingBag(7, 3) | 4,5<7
EmbeddingBag(7, 3, mode='sum') | 4,5<7 ; EmbeddingBag(7, 3, mode='max') | 4,5<7
EmbeddingBag(7, 3, mode='sum', padding_idx=1) | 4,5<7
Dropout() | 6,5 ; Dropout(0.2, inplace=True) | 6,5 ; Dropout(0.0) | 6,5 ; Dropout1d(0.5) | 4,5,6 ; Dropout1d(0.5) | 5,6
Dropout2d(0.5) | 2,4,3,3 ; Dropout3d(0.5) | 2,4,3,3,2 ; AlphaDropout(0.3) | 6,5 ; FeatureAlphaDropout(0.3) | 4,5,6
CosineSimilarity() | 3,4 3,4 ; CosineSimilarity(dim=0) | 3,4 3,4 ; PairwiseDistance() | 3,4 3,4
PairwiseDistance(1, keepdim=True) | 3,4 3,4 ; PixelShuffle(2) | 2,8,3,4 ; PixelUnshuffle(2) | 2,3,4,6
ChannelShuffle(2) | 2,4,3,3 ; Sequential(Linear(3, 4), ReLU(), Linear(4, 2)) | 5,3
"""
NORMS = """
LayerNorm(4) | 3,4 ; LayerNorm((3, 4)) | 2,3,4 ; LayerNorm(4, elementwise_affine=False) | 3,4
LayerNorm(4, bias=False, eps=1e-3) | 2,3,4 ; RMSNorm(4) | 3,4 ; RMSNorm((3, 4), eps=1e-5) | 2,3,4
RMSNorm(4, elementwise_affine=False) | 2,4 ; GroupNorm(2, 6) | 3,6,4 ; GroupNorm(3, 6, affine=False) | 2,6,4,4
GroupNorm(1, 6) | 3,6 ; BatchNorm1d(4) | 5,4 ; BatchNorm1d(4) | 5,4,3 ; BatchNorm1d(4, affine=False) | 5,4
BatchNorm1d(4, momentum=None) | 5,4 ; BatchNorm1d(4, track_running_stats=False) | 5,4 ; BatchNorm2d(3) | 2,3,4,5
BatchNorm2d(3, eps=0.01, momentum=0.3) | 2,3,4,5 ; BatchNorm3d(3) | 2,3,2,3,2 ; InstanceNorm1d(3) | 2,3,5
InstanceNorm1d(3) | 3,5 ; InstanceNorm2d(3, affine=True) | 2,3,4,5
InstanceNorm2d(3, affine=True, track_running_stats=True) | 2,3,4,5 ; LocalResponseNorm(3) | 2,5,4,4
LocalResponseNorm(2, alpha=0.1) | 2,5,4
"""
IMAGES = """
Conv1d(3, 4, 3) | 2,3,8 ; Conv1d(3, 4, 3, stride=2, padding=1) | 2,3,9 ; Conv1d(4, 6, 3, groups=2, dilation=2) | 2,4,9
Conv1d(3, 4, 3) | 3,8 ; Conv1d(3, 4, 4, padding='same') | 2,3,8
Conv1d(3, 4, 3, padding=1, padding_mode='circular') | 2,3,8
Conv2d(3, 4, 3) | 2,3,6,7 ; Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False) | 2,3,6,7
Conv2d(4, 4, 3, groups=4) | 2,4,6,6 ; Conv2d(3, 4, 3, padding='same', dilation=2) | 1,3,6,6
Conv2d(3, 4, 3, padding='valid') | 1,3,6,6 ; Conv2d(3, 4, 3, padding=1, padding_mode='reflect') | 2,3,5,5
Conv2d(3, 4, 3, padding=1, padding_mode='replicate') | 2,3,5,5 ; Conv2d(3, 8, 1) | 2,3,4,4 ; Conv2d(3, 4, 3) | 3,6,7
Conv3d(2, 3, 2) | 1,2,4,4,4 ; ConvTranspose1d(3, 4, 3) | 2,3,5
ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2) | 2,4,5 ; ConvTranspose2d(3, 4, 3) | 2,3,4,4
ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1, dilation=2) | 2,3,4,5
ConvTranspose2d(3, 4, 2, stride=2, bias=False) | 3,4,4 ; ConvTranspose2d(3, 2, 2, padding=1) | 1,3,4,4
MaxPool1d(2) | 2,3,7 ; MaxPool1d(3, stride=2, padding=1) | 2,3,8 ; MaxPool1d(2, return_indices=True) | 2,3,8
MaxPool2d(2) | 2,3,6,6 ; MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0)) | 2,3,6,7
MaxPool2d(2, ceil_mode=True) | 2,3,5,7
MaxPool2d(3, stride=2, padding=1, return_indices=True) | 2,3,6,7 ; MaxPool2d(2, dilation=2) | 2,3,6,6
MaxPool2d(2) | 3,6,6 ; MaxPool3d(2) | 1,2,4,4,4 ; AvgPool1d(2) | 2,3,7 ; AvgPool1d(3, 2, 1) | 2,3,8
AvgPool2d(2) | 2,3,6,6
AvgPool2d(3, 2, 1) | 2,3,6,7 ; AvgPool2d(3, 2, 1, count_include_pad=False) | 2,3,6,7
AvgPool2d(2, ceil_mode=True) | 2,3,5,5 ; AvgPool2d(3, 2, 1, ceil_mode=True) | 2,3,6,6
AvgPool2d(2, divisor_override=3) | 2,3,6,6 ; LPPool1d(2, 3) | 2,3,7 ; LPPool2d(2, 2) | 2,3,6,6
AdaptiveAvgPool1d(3) | 2,3,8 ; AdaptiveAvgPool2d(1) | 2,3,5,6 ; AdaptiveAvgPool2d((2, 3)) | 2,3,5,7
AdaptiveAvgPool2d((None, 2)) | 2,3,5,6 ; AdaptiveMaxPool1d(3) | 2,3,8 ; AdaptiveMaxPool2d((2, 3)) | 2,3,5,7
Upsample(scale_factor=2) | 2,3,4,5 ; Upsample(size=7) | 2,3,4 ; Upsample(size=(5, 6), mode='bilinear') | 2,3,3,4
Upsample(scale_factor=2, mode='bilinear', align_corners=True) | 2,3,3,4
Upsample(scale_factor=1.5, mode='bilinear') | 1,2,4,5
Upsample(scale_factor=2, mode='linear') | 2,3,4 ; UpsamplingNearest2d(scale_factor=3) | 1,2,3,3
UpsamplingBilinear2d(size=(5, 5)) | 1,2,3,3 ; Upsample(scale_factor=2, mode='bicubic') | 1,2,4,5
ZeroPad2d(2) | 1,2,3,3 ; ZeroPad2d((1, 2, 0, -1)) | 1,2,4,4 ; ZeroPad1d(1) | 2,3,4 ; ConstantPad1d(2, 3.5) | 2,3,4
ConstantPad2d((1, 0, 2, 1), -1.) | 1,2,3,3 ; ReflectionPad1d(2) | 2,3,5 ; ReflectionPad2d((1, 2, 0, 1)) | 1,2,4,4
ReplicationPad1d(2) | 2,3,4 ; ReplicationPad2d(1) | 1,2,3,3 ; CircularPad1d(2) | 2,3,4 ; CircularPad2d(1) | 1,2,3,3
Fold((4, 5), (2, 2)) | 2,12,12 ; Fold((4, 4), 3, padding=1, stride=2) | 1,18,4 ; Unfold((2, 3)) | 2,3,4,5
Unfold(3, dilation=2, padding=1, stride=2) | 2,3,7,7
LPPool3d(2, 2) | 1,2,4,4,4 ; AdaptiveMaxPool3d((2, 1, 3)) | 1,2,4,3,5 ; FractionalMaxPool2d(2, (3, 4)) | 2,3,7,8
FractionalMaxPool2d((2, 3), output_ratio=(0.5, 0.6)) | 2,3,8,9 ; FractionalMaxPool3d(2, (2, 3, 2)) | 1,2,5,6,4
FractionalMaxPool2d(2, 3) | 3,7,8 ; ReflectionPad3d(1) | 1,2,3,3,3 ; ReplicationPad3d((1, 0, 2, 1, 0, 1)) | 1,2,3,3,3
CircularPad3d(1) | 1,2,3,3,3 ; DataParallel(Linear(3, 4)) | 2,3 ; AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6]) | 5,8 5<10
AdaptiveLogSoftmaxWithLoss(8, 12, [2, 5, 9], div_value=2., head_bias=True) | 6,8 6<12
"""
RECURRENT = """
RNN(3, 4) | 5,2,3 ; RNN(3, 4, 2, 'relu') | 5,2,3 ; RNN(3, 4, batch_first=True, bidirectional=True) | 2,5,3
RNN(3, 4) | 5,3 ; LSTM(3, 4) | 5,2,3 ; LSTM(3, 4, 2, dropout=0.5) | 5,2,3 ; LSTM(3, 4, bidirectional=True) | 5,2,3
LSTM(3, 4, 2, batch_first=True, bias=False) | 2,5,3 ; LSTM(3, 4, 2, proj_size=2, bidirectional=True) | 5,2,3
LSTM(3, 4) | 5,2,3 (1,2,4 1,2,4) ; LSTM(3, 4) | 5,3 ; LSTM(3, 4) | 5,3 (1,4 1,4) ; GRU(3, 4) | 5,2,3
GRU(3, 4, 2, bidirectional=True, dropout=0.3) | 5,2,3 ; GRU(3, 4, batch_first=True) | 2,5,3 1,2,4
RNNCell(3, 4) | 2,3 ; RNNCell(3, 4, nonlinearity='relu', bias=False) | 2,3 2,4 ; LSTMCell(3, 4) | 2,3
LSTMCell(3, 4) | 2,3 (2,4 2,4) ; LSTMCell(3, 4) | 3 ; GRUCell(3, 4) | 2,3 2,4 ; GRUCell(3, 4) | 3
"""
ATTENTION = """
MultiheadAttention(8, 2) | 5,3,8 5,3,8 5,3,8 ; MultiheadAttention(8, 2, batch_first=True) | 3,5,8 3,6,8 3,6,8
MultiheadAttention(8, 2, kdim=4, vdim=6, bias=False) | 5,3,8 7,3,4 7,3,6
MultiheadAttention(8, 4, dropout=0.2) | 5,3,8 5,3,8 5,3,8
MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True) | 5,3,8 6,3,8 6,3,8
MultiheadAttention(8, 2) | 5,8 6,8 6,8 ; TransformerEncoderLayer(8, 2, 16) | 5,3,8
TransformerEncoderLayer(8, 2, 16, activation='gelu', batch_first=True, norm_first=True, dropout=0.) | 3,5,8
TransformerDecoderLayer(8, 2, 16) | 5,3,8 6,3,8
TransformerEncoder(TransformerEncoderLayer(8, 2, 16), 2) | 5,3,8
TransformerDecoder(TransformerDecoderLayer(8, 2, 16), 2, LayerNorm(8)) | 5,3,8 6,3,8
Transformer(8, 2, 1, 1, 16) | 5,3,8 6,3,8 ; Transformer(8, 2, 1, 1, 16, batch_first=True, norm_first=True) | 3,5,8 3,6,8
"""
ERRORS = """
Linear(3, 4) | 2,5 ; Linear(3, 4) | 0,3 ; Bilinear(3, 4, 5) | 2,3 3,4 ; LayerNorm(4) | 2,3 ; GroupNorm(2, 4) | 2,3,4
GroupNorm(3, 4) | 2,4 ; BatchNorm1d(4) | 5 ; BatchNorm1d(4) | 1,4 ; BatchNorm1d(4) | 2,3 ; BatchNorm2d(3) | 2,3
InstanceNorm1d(3) | 2,3,1 ; Conv2d(3, 4, 3) | 2,5,6,6 ; Conv2d(3, 4, 3) | 2,6 ; Conv2d(3, 4, 9) | 2,3,6,6
Conv2d(3, 4, 3, groups=2) | 1,3,6,6 ; Conv2d(3, 4, 3, stride=2, padding='same') | 1,3,6,6
Conv2d(3, 4, 3, padding='x') | 1
ConvTranspose1d(3, 4, 3) | 2,4,5 ; ConvTranspose1d(3, 4, 3, output_padding=1) | 2,3,5 ; MaxPool2d(9) | 1,3,4,4
ReflectionPad1d(5) | 2,3,4 ; Embedding(3, 4) | 6<9 ; Embedding(3, 4, padding_idx=5) | 2<3 ; LSTM(3, 4) | 5,2,4
LSTM(3, 4) | 5 ; LSTM(3, 4) | 5,2,3 (1,3,4 1,3,4) ; GRU(3, 4) | 5,2,3 2,4 ; GRU(3, 0) | 1 ; LSTM(3, 4, proj_size=4) | 1
LSTM(3, 4, dropout=2) | 1 ; LSTMCell(3, 4) | 2,4 ; GRUCell(3, 4) | 2,3 3,4 ; MultiheadAttention(8, 3) | 1
LSTMCell(3, 4) | 2,3 2,4 ; LSTMCell(3, 4) | 2,3 (2,4) ; LSTMCell(3, 4) | 2,3 (2,4 2,4 2,4)
LSTMCell(3, 4) | 2,3 (2,4 2,5) ; LSTMCell(3, 4) | 2,3 (2,4 3,4)
MultiheadAttention(8, 2) | 5,3,6 5,3,6 5,3,6 ; Dropout(1.5) | 2 ; Unflatten(1, (2, 3)) | 2,5 ; PixelShuffle(2) | 1,3,4,4
Transformer(8, 2, 1, 1, 16) | 5,3,8 6,2,8 ; Hardtanh(2, 1) | 2 ; Softmax2d() | 2,2 ; Module() | 2
"""


def rows(text):
    made = []
    for part in text.replace("\n", " ; ").split(" ; "):
        if part.strip():
            constructor, _, inputs = part.partition("|")
            made.append((constructor.strip(), inputs.strip()))
    return made
